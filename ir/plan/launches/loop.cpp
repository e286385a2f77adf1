// Elementwise recurrences, over all steps of a chunk.
#include <set>

#include "ir/plan/kernel_facts.h"
#include "ir/plan/launches/access_text.h"
#include "ir/plan/launches/kernel_calls.h"
#include "ir/plan/launches/launches.h"

namespace rnnc {

std::string text_of(const Plan& plan, const LoopLaunch& launch) {
  std::string carries;
  for (const LoopLaunch::Carry& carry : launch.carries) {
    carries += fmt::format("{}a{} = a{}", carries.empty() ? "" : ", ", carry.load, carry.store);
  }
  return fmt::format("{} carrying {}", call_text(plan, launch.kernel, launch.accesses), carries);
}

void parse(PlanScanner& in, LoopLaunch& launch) {
  parse_call(in, launch.kernel, launch.accesses);
  in.expect("carrying");
  const size_t arguments = launch.accesses.size();
  uint32_t load = 0;
  if (!in.take_id('a', arguments, load)) return;
  while (true) {
    in.expect("=");
    launch.carries.push_back({load, in.id('a', arguments)});
    if (!in.take(",")) return;
    load = in.id('a', arguments);
  }
}

void add_touches(const Plan& plan, const LoopLaunch& launch, std::vector<Touch>& result) {
  add_arguments(plan, launch.kernel, launch.accesses, result);
}

Status verify(LaunchVerifier& in, const LoopLaunch& launch) {
  if (in.where() != Where::Loop) return fail("a loop is not alone in its stage");
  if (Status status = in.check_call(launch.kernel, launch.accesses); !status) return status;
  const Kernel& kernel = in.plan().kernels[launch.kernel];
  if (has_reductions(kernel)) return fail("a loop has a reduction");
  std::set<uint32_t> loads;
  for (const LoopLaunch::Carry& carry : launch.carries) {
    const size_t count = kernel.arguments.size();
    if (carry.load >= count || carry.store >= count || kernel.arguments[carry.load].written ||
        !kernel.arguments[carry.store].written) {
      return fail("a carry goes from a{} to a{}", carry.store, carry.load);
    }
    const Access& from = launch.accesses[carry.load];
    const Access& to = launch.accesses[carry.store];
    if (from.buffer != to.buffer || from.column != to.column) {
      return fail("a{} and a{} carry different values", carry.load, carry.store);
    }
    loads.insert(carry.load);
  }
  for (size_t i = 0; i < loads.size(); ++i) {
    const bool first = i < kernel.body.size() && kernel.body[i].kind == Instruction::Kind::Load &&
                       loads.contains(kernel.body[i].argument);
    if (!first) return fail("a loop loads its carries late");
  }
  return in.check_touches(in.arguments(launch.kernel, launch.accesses), 1);
}

LaunchWork work_of(const Plan& plan, const LoopLaunch& launch, int64_t rows) {
  return {.elementwise = static_cast<double>(rows) * flops_of(plan.kernels[launch.kernel])};
}

}  // namespace rnnc
