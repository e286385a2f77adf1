// Elementwise recurrences, over all steps of a chunk.
#include <set>

#include "ir/plan/kernel_facts.h"
#include "ir/plan/launches/access_text.h"
#include "ir/plan/launches/define_launch_kind.h"
#include "ir/plan/launches/kernel_calls.h"
#include "ir/plan/launches/kernel_launches.h"
#include "ir/plan/launches/loop_carries.h"

namespace rnnc {

template <>
inline constexpr std::string_view kOpening<LoopLaunch> = "loop";
template <>
inline constexpr Where kPlace<LoopLaunch> = Where::Loop;

namespace {

bool loads_after_store(const Kernel& kernel, const LoopCarry& carry) {
  bool is_stored = false;
  for (const Instruction& instruction : kernel.body) {
    const bool loads = instruction.kind == Instruction::Kind::Load;
    const bool stores = instruction.kind == Instruction::Kind::Store;
    if (loads && instruction.argument == carry.load && is_stored) return true;
    is_stored = is_stored || (stores && instruction.argument == carry.store);
  }
  return false;
}

int64_t states_in(const Kernel& kernel, const std::vector<LoopCarry>& carries) {
  int64_t states = 0;
  for (const LoopCarry& carry : carries) states += kernel.arguments[carry.load].count;
  return states;
}

}  // namespace

std::string carries_text(const std::vector<LoopCarry>& carries) {
  std::string text;
  for (const LoopCarry& carry : carries) {
    text += fmt::format("{}a{} = a{}", text.empty() ? "" : ", ", carry.load, carry.store);
  }
  return text;
}

void parse_carries(PlanScanner& in, size_t arguments, std::vector<LoopCarry>& carries) {
  in.expect("carrying");
  uint32_t load = 0;
  if (!in.take_id('a', arguments, load)) return;
  while (true) {
    in.expect("=");
    carries.push_back({load, in.id('a', arguments)});
    if (!in.take(",")) return;
    load = in.id('a', arguments);
  }
}

std::string text_of(const Plan& plan, const LoopLaunch& launch) {
  return fmt::format("{} carrying {}", call_text(plan, launch.kernel, launch.accesses),
                     carries_text(launch.carries));
}

void parse(PlanScanner& in, LoopLaunch& launch) {
  parse_call(in, launch.kernel, launch.accesses);
  parse_carries(in, launch.accesses.size(), launch.carries);
}

void add_touches(const Plan& plan, const LoopLaunch& launch, std::vector<Touch>& result) {
  add_arguments(plan, launch.kernel, launch.accesses, result);
}

Status check_carries(LaunchVerifier& in, uint32_t id, const std::vector<Access>& accesses,
                     const std::vector<LoopCarry>& carries) {
  if (in.where() != Where::Loop) return fail("a loop is not alone in its stage");
  if (Status status = in.check_call(id, accesses); !status) return status;
  const Kernel& kernel = in.plan().kernels[id];
  if (has_reductions(kernel)) return fail("a loop has a reduction");
  std::set<uint32_t> loads;
  for (const LoopCarry& carry : carries) {
    const size_t count = kernel.arguments.size();
    if (carry.load >= count || carry.store >= count || kernel.arguments[carry.load].written ||
        !kernel.arguments[carry.store].written) {
      return fail("a carry goes from a{} to a{}", carry.store, carry.load);
    }
    const Access& from = accesses[carry.load];
    const Access& to = accesses[carry.store];
    const int64_t elements = kernel.arguments[carry.load].count;
    if (from.buffer != to.buffer || from.column != to.column ||
        elements != kernel.arguments[carry.store].count) {
      return fail("a{} and a{} carry different values", carry.load, carry.store);
    }
    if (elements == 1) {
      loads.insert(carry.load);
    } else if (loads_after_store(kernel, carry)) {
      return fail("a loop loads a{} behind what it carries to it", carry.load);
    }
  }
  for (size_t i = 0; i < loads.size(); ++i) {
    const bool first = i < kernel.body.size() && kernel.body[i].kind == Instruction::Kind::Load &&
                       loads.contains(kernel.body[i].argument);
    if (!first) return fail("a loop loads its carries late");
  }
  return {};
}

Status verify(LaunchVerifier& in, const LoopLaunch& launch) {
  const Status status = check_carries(in, launch.kernel, launch.accesses, launch.carries);
  return status ? in.check_touches(in.arguments(launch.kernel, launch.accesses), 1) : status;
}

LaunchWork work_of(const Plan& plan, const LoopLaunch& launch, int64_t rows) {
  return {.elementwise = static_cast<double>(rows) * flops_of(plan.kernels[launch.kernel])};
}

LaunchWords describe(const LaunchNames& in, const LoopLaunch& launch) {
  LaunchWords words = describe(in, ElementwiseLaunch{launch.kernel, launch.accesses});
  words.kind = "loop";
  words.summary = fmt::format("loop of {}", plural(operation_count(words), "operation"));
  words.strategy = in.on_cpu()
                       ? "a loop over the steps of a chunk, whose sequences and vectors of "
                         "channels threads share out"
                       : "a loop over the steps of a chunk, one thread per sequence and channel";
  words.notes.push_back(
      {"fused",
       fmt::format("{} steps in one launch, {} carried in registers", in.plan().chunk,
                   plural(states_in(in.plan().kernels[launch.kernel], launch.carries), "state"))});
  return words;
}

template struct LaunchKind<LoopLaunch>;

}  // namespace rnnc
