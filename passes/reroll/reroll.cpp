// 1. Take kernels that are long, and that only elementwise launches and loops of stages run, on a
//    CPU fused ones too, each on buffers that lie to each other as those of the others do.
// 2. Find the families of each (passes/reroll/kernel_families.h), and make loops of them
//    (passes/reroll/rerolled_kernel.h), and of what is alike in these loops around them
//    (passes/reroll/loop_nests.h), if that leaves few instructions.
// 3. Give the launches the accesses and carries that are left.
#include "passes/reroll/reroll.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "ir/plan/kernel_facts.h"
#include "passes/reroll/array_buffers.h"
#include "passes/reroll/loop_nests.h"

namespace rnnc {
namespace {

/// Shorter kernels are compiled soon as they are. A GPU's loops over time load what steps need
/// ahead as long as they have none of their own.
constexpr size_t kLongKernel = 128;
constexpr size_t kLongCudaKernel = 256;

size_t long_kernel(const Kernel& kernel, bool on_cpu) {
  return on_cpu || has_reductions(kernel) ? kLongKernel : kLongCudaKernel;
}

constexpr int64_t kLeastCount = 8;
constexpr int64_t kLongestReduced = 1024;  // of rows with reductions
/// Of instructions that loops leave, one in so many that there were.
constexpr size_t kWorth = 2;

/// A launch that runs the kernel.
struct Call {
  std::vector<Access>* accesses = nullptr;
  std::vector<LoopCarry>* carries = nullptr;              // of loops
  std::vector<FusedLaunch::Product>* products = nullptr;  // of fused launches
};

struct Calls {
  std::vector<Call> calls;
  bool others = false;  // are there launches that want the kernel as it is?
};

class CallFinder {
 public:
  CallFinder(std::vector<Calls>& calls, bool on_cpu) : calls_(calls), on_cpu_(on_cpu) {}

  void operator()(ElementwiseLaunch& launch) {
    calls_[launch.kernel].calls.push_back({.accesses = &launch.accesses});
  }
  void operator()(LoopLaunch& launch) {
    calls_[launch.kernel].calls.push_back(
        {.accesses = &launch.accesses, .carries = &launch.carries});
  }
  void operator()(FusedLaunch& launch) {
    if (on_cpu_) {
      calls_[launch.kernel].calls.push_back(
          {.accesses = &launch.accesses, .products = &launch.products});
    } else {
      calls_[launch.kernel].others = true;
    }
  }
  void operator()(ScanLaunch& launch) { calls_[launch.kernel].others = true; }
  void operator()(RecurrenceLaunch& launch) {
    for (const FusedLaunch& phase : launch.phases) calls_[phase.kernel].others = true;
  }
  template <typename Launch>
  void operator()(Launch&) {}

 private:
  std::vector<Calls>& calls_;
  bool on_cpu_;
};

std::vector<Calls> find_calls(Plan& plan, bool on_cpu) {
  std::vector<Calls> calls(plan.kernels.size());
  for (Stage& stage : plan.stages) {
    for (Launch& launch : stage.launches) std::visit(CallFinder(calls, on_cpu), launch);
  }
  for (const StatePlan& state : plan.states) {
    for (const auto member : kStateLaunches) {
      const ElementwiseLaunch& launch = state.*member;
      if (!launch.accesses.empty()) calls[launch.kernel].others = true;
    }
  }
  return calls;
}

bool same_carries(const Call& a, const Call& b) {
  if (a.carries == nullptr || b.carries == nullptr) return a.carries == b.carries;
  return *a.carries == *b.carries;
}

/// Whether what is near what in the accesses of the one is so in those of the other.
bool lie_alike(const std::vector<Access>& a, const std::vector<Access>& b) {
  using Rows = std::tuple<BufferId, uint32_t, int64_t>;
  std::map<Rows, std::pair<Rows, int64_t>> shifts;
  std::map<Rows, Rows> back;
  for (size_t i = 0; i < a.size(); ++i) {
    const Rows from = {a[i].buffer, a[i].delay, a[i].stride};
    const Rows to = {b[i].buffer, b[i].delay, b[i].stride};
    const std::pair shift(to, b[i].column - a[i].column);
    if (shifts.try_emplace(from, shift).first->second != shift) return false;
    if (back.try_emplace(to, from).first->second != from) return false;
  }
  return true;
}

/// `arguments`: which each was.
void rename(std::vector<FusedLaunch::Product>& products, const std::vector<uint32_t>& arguments) {
  for (FusedLaunch::Product& product : products) {
    const auto found = std::ranges::find(arguments, product.first_argument);
    product.first_argument = static_cast<uint32_t>(found - arguments.begin());
  }
}

/// Reductions in loops are over rows that a CPU's vector code, and a block of a GPU, has at once.
bool may_reduce(const Kernel& kernel) {
  const bool varies = std::ranges::any_of(kernel.body, [](const Instruction& instruction) {
    return instruction.kind == Instruction::Kind::Reduce && instruction.op == Op::Var;
  });
  return !has_reductions(kernel) || (!varies && kernel.length <= kLongestReduced);
}

/// What loops may be.
struct Nesting {
  bool families = false;  // ones of arrays of which loops around go through others
  bool loops = false;     // in loops
};

/// As few instructions as loops leave, or nothing if there are none.
std::optional<RerolledKernel> loops_of_kernel(const Kernel& kernel,
                                              const std::vector<Access>& accesses,
                                              const std::vector<LoopCarry>& carries,
                                              Nesting nesting) {
  std::optional<RerolledKernel> best;
  for (const bool nests : {false, true}) {
    if (nests && !nesting.families) break;
    if (nests && best && best->kernel.body.size() < kLongLoops) break;
    const KernelFamilies families =
        find_families(kernel, accesses, carries, {.least = kLeastCount, .nests = nests});
    if (families.families.empty()) continue;
    RerolledKernel made = reroll_kernel(kernel, carries, families);
    if (nesting.loops && made.kernel.body.size() >= kLongLoops) {
      std::optional<RerolledKernel> nested = nest_loops(made, accesses);
      if (nested && nested->kernel.body.size() * kWorth <= made.kernel.body.size()) {
        made = *std::move(nested);
      }
    }
    if (!best || made.kernel.body.size() < best->kernel.body.size()) best = std::move(made);
  }
  return best;
}

Nesting nesting_of(const Kernel& kernel, bool on_cpu) {
  return {.families = true, .loops = on_cpu || !has_reductions(kernel)};
}

bool run_kernel(Kernel& kernel, const Calls& calls, Nesting nesting) {
  if (calls.calls.empty() || calls.others || !may_reduce(kernel)) return false;
  const Call& first = calls.calls[0];
  const bool alike = std::ranges::all_of(calls.calls, [&](const Call& call) {
    return same_carries(call, first) && lie_alike(*first.accesses, *call.accesses);
  });
  if (!alike) return false;
  static const std::vector<LoopCarry> kNone;
  const std::vector<LoopCarry>& carries = first.carries ? *first.carries : kNone;
  std::optional<RerolledKernel> loops = loops_of_kernel(kernel, *first.accesses, carries, nesting);
  if (!loops || loops->kernel.body.size() * kWorth > kernel.body.size()) return false;
  RerolledKernel made = *std::move(loops);
  kernel = std::move(made.kernel);
  for (const Call& call : calls.calls) {
    std::vector<Access> accesses;
    for (const uint32_t argument : made.arguments) accesses.push_back((*call.accesses)[argument]);
    *call.accesses = std::move(accesses);
    if (call.products != nullptr) rename(*call.products, made.arguments);
    if (call.carries != nullptr) *call.carries = made.carries;
  }
  return true;
}

/// Without loops in loops, or with them.
bool reroll_all(Plan& plan, bool on_cpu, bool nests) {
  bool changed = run_array_buffers(plan, kLongKernel, kLeastCount, nests);
  const std::vector<Calls> calls = find_calls(plan, on_cpu);
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    if (plan.kernels[i].body.size() < long_kernel(plan.kernels[i], on_cpu)) continue;
    const Nesting nesting = nests ? nesting_of(plan.kernels[i], on_cpu) : Nesting();
    changed = run_kernel(plan.kernels[i], calls[i], nesting) || changed;
  }
  return changed;
}

size_t longest_kernel(const Plan& plan) {
  size_t longest = 0;
  for (const Kernel& kernel : plan.kernels) longest = std::max(longest, kernel.body.size());
  return longest;
}

size_t count_instructions(const Plan& plan) {
  size_t count = 0;
  for (const Kernel& kernel : plan.kernels) count += kernel.body.size();
  return count;
}

std::string behind_products(size_t count) {
  return fmt::format("{} instructions: behind products, a GPU keeps no loops", count);
}

}  // namespace

std::string why_written_out(const Plan& plan, const Launch& launch, Machine::Kind machine) {
  static const std::vector<LoopCarry> kNone;
  const std::vector<Access>* accesses = nullptr;
  const std::vector<LoopCarry>* carries = &kNone;
  uint32_t id = 0;
  const auto take = [&](const auto& one) {
    id = one.kernel;
    accesses = &one.accesses;
  };
  const auto* fused = std::get_if<FusedLaunch>(&launch);
  if (const auto* one = std::get_if<ElementwiseLaunch>(&launch)) take(*one);
  if (fused != nullptr) take(*fused);
  if (const auto* one = std::get_if<LoopLaunch>(&launch)) {
    take(*one);
    carries = &one->carries;
  }
  size_t of_phases = 0;
  if (const auto* one = std::get_if<RecurrenceLaunch>(&launch)) {
    for (const FusedLaunch& phase : one->phases) {
      of_phases = std::max(of_phases, plan.kernels[phase.kernel].body.size());
    }
  }
  if (of_phases >= kLongCudaKernel) return behind_products(of_phases);
  if (accesses == nullptr) return {};
  const Kernel& kernel = plan.kernels[id];
  const size_t count = kernel.body.size();
  if (!kernel.loops.empty() || count < kLongCudaKernel) return {};
  if (fused != nullptr && machine == Machine::Kind::Cuda) {
    return behind_products(count);
  }
  if (!may_reduce(kernel)) {
    return fmt::format(
        "{} instructions: loops are kept over rows of at most {} elements, of which no "
        "`var` is taken",
        count, kLongestReduced);
  }
  const bool on_cpu = machine == Machine::Kind::Cpu;
  const std::optional<RerolledKernel> loops =
      loops_of_kernel(kernel, *accesses, *carries, nesting_of(kernel, on_cpu));
  if (!loops) {
    return fmt::format(
        "{} instructions: no {} turns of a loop do the same to one element after the "
        "other of arrays, and at most add up, multiply, or take the least or greatest "
        "of something, whose last value alone is used",
        count, kLeastCount);
  }
  return fmt::format("{} instructions, of which loops would leave {}", count,
                     loops->kernel.body.size());
}

bool run_reroll(Plan& plan, const Machine& machine) {
  const bool on_cpu = machine.kind == Machine::Kind::Cpu;
  if (longest_kernel(plan) < kLongKernel) return false;
  Plan nested = plan;
  const bool changed = reroll_all(plan, on_cpu, /*nests=*/false);
  if (longest_kernel(plan) < kLongLoops || !reroll_all(nested, on_cpu, /*nests=*/true)) {
    return changed;
  }
  // What is put together for nests may stand in the way of loops in none.
  if (count_instructions(nested) >= count_instructions(plan)) return changed;
  plan = std::move(nested);
  return true;
}

}  // namespace rnnc
