// 1. Find the totals whose elements are the phases' stores, side by side.
// 2. Behind each such store its kernel loads what it has added up so far, adds, and stores that.
// 3. A stage after all steps adds up the sequences' sums; the totals over steps go.
#include "passes/persistent/carried_totals.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "passes/lower/kernel_builder.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

/// What a phase stores of a total's elements.
struct PartialStore {
  size_t phase = 0;
  uint32_t argument = 0;
  uint32_t value = 0;  // an instruction of the phase's kernel
  int64_t column = 0;  // of the total
  int64_t length = 0;
};

class TotalStores {
 public:
  TotalStores(const Plan& plan, const std::vector<FusedLaunch>& phases)
      : plan_(plan), phases_(phases) {}

  /// In the order of their columns; none if something else makes a part of the total.
  std::vector<PartialStore> of(const TotalLaunch& total) const {
    std::vector<PartialStore> stores;
    for (size_t p = 0; p < phases_.size(); ++p) {
      const Kernel& kernel = plan_.kernels[phases_[p].kernel];
      for (uint32_t i = 0; i < kernel.arguments.size(); ++i) {
        const Access& access = phases_[p].accesses[i];
        const int64_t column = access.column - total.left.column;
        const bool is_part = kernel.arguments[i].written && access.buffer == total.left.buffer &&
                             column >= 0 && column < total.m;
        if (!is_part) continue;
        const auto value = stored_value(kernel, i);
        if (!value || access.delay != 0) return {};
        stores.push_back({p, i, *value, column, kernel.length});
      }
    }
    std::ranges::sort(stores, {}, &PartialStore::column);
    int64_t end = 0;
    for (const PartialStore& store : stores) {
      if (store.column != end) return {};
      end += store.length;
    }
    return end == total.m ? stores : std::vector<PartialStore>();
  }

 private:
  /// By an argument of one element for each of the row, outside of loops.
  static std::optional<uint32_t> stored_value(const Kernel& kernel, uint32_t argument) {
    const Kernel::Argument& of = kernel.arguments[argument];
    if (!of.vector || of.count != 1 || !kernel.loops.empty()) return std::nullopt;
    const auto found = std::ranges::find_if(kernel.body, [&](const Instruction& instruction) {
      return instruction.kind == Kind::Store && instruction.argument == argument;
    });
    if (found == kernel.body.end()) return std::nullopt;
    const uint32_t value = found->operands[0];
    return kernel.body[value].vector ? std::optional(value) : std::nullopt;
  }

  const Plan& plan_;
  const std::vector<FusedLaunch>& phases_;
};

const TotalLaunch& total_at(const Plan& plan, LaunchPlace place) {
  return std::get<TotalLaunch>(plan.stages[place.stage].launches[place.launch]);
}

/// Adds `access` to the phase, and its argument to the kernel.
uint32_t add_argument(Kernel& kernel, FusedLaunch& phase, const Access& access, bool written) {
  kernel.arguments.push_back({.dtype = DType::f32, .vector = true, .written = written});
  phase.accesses.push_back(access);
  return static_cast<uint32_t>(kernel.arguments.size() - 1);
}

uint32_t add_instruction(Kernel& kernel, Instruction instruction) {
  instruction.vector = true;
  kernel.body.push_back(std::move(instruction));
  return static_cast<uint32_t>(kernel.body.size() - 1);
}

void add_up(Kernel& kernel, FusedLaunch& phase, const PartialStore& store, const Access& sum) {
  const uint32_t from = add_argument(kernel, phase, sum, /*written=*/false);
  const uint32_t to = add_argument(kernel, phase, sum, /*written=*/true);
  const uint32_t before =
      add_instruction(kernel, {.kind = Kind::Load, .argument = from, .operands = {}});
  const uint32_t after = add_instruction(
      kernel, {.kind = Kind::Scalar, .op = Op::Add, .operands = {before, store.value}});
  add_instruction(kernel, {.kind = Kind::Store, .argument = to, .operands = {after}});
}

}  // namespace

std::vector<LaunchPlace> totals_to_carry(const Plan& plan, const std::vector<FusedLaunch>& phases) {
  const TotalStores stores(plan, phases);
  std::vector<LaunchPlace> places;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.stages[s].domain != Domain::Sequence) continue;
    for (size_t i = 0; i < plan.stages[s].launches.size(); ++i) {
      const auto* total = std::get_if<TotalLaunch>(&plan.stages[s].launches[i]);
      const bool is_sum =
          total != nullptr && total->right.buffer == kNoBuffer && total->left.delay == 0;
      if (is_sum && !stores.of(*total).empty()) places.push_back({s, i});
    }
  }
  return places;
}

std::vector<BufferId> carry_totals(Plan& plan, std::vector<FusedLaunch>& phases,
                                   const std::vector<LaunchPlace>& totals) {
  std::vector<BufferId> sums;
  for (const LaunchPlace place : totals) {
    const TotalLaunch total = total_at(plan, place);
    const std::vector<PartialStore> stores = TotalStores(plan, phases).of(total);
    sums.push_back(static_cast<BufferId>(plan.buffers.size()));
    plan.buffers.push_back({.name = plan.buffers[total.out.buffer].name,
                            .dtype = DType::f32,
                            .placement = Placement::Workspace,
                            .extent = Extent::Batch,
                            .width = total.m});
    for (const PartialStore& store : stores) {
      FusedLaunch& phase = phases[store.phase];
      Kernel kernel = plan.kernels[phase.kernel];
      add_up(kernel, phase, store,
             {.buffer = sums.back(), .column = store.column, .stride = total.m});
      phase.kernel = add_kernel(plan, std::move(kernel));
    }
  }
  return sums;
}

void move_carried_totals(Plan& plan, const std::vector<LaunchPlace>& totals,
                         const std::vector<BufferId>& sums) {
  if (totals.empty()) return;
  std::vector<Launch> after;
  for (size_t i = totals.size(); i-- > 0;) {
    Stage& stage = plan.stages[totals[i].stage];
    TotalLaunch total = total_at(plan, totals[i]);
    total.left = {.buffer = sums[i], .stride = total.m};
    total.accumulate = false;
    after.insert(after.begin(), total);
    stage.launches.erase(stage.launches.begin() + static_cast<std::ptrdiff_t>(totals[i].launch));
  }
  std::erase_if(plan.stages, [](const Stage& stage) {
    return stage.domain == Domain::Sequence && stage.launches.empty();
  });
  const auto last = std::ranges::find(plan.stages, Domain::Last, &Stage::domain);
  const auto at =
      last != plan.stages.end()
          ? last
          : plan.stages.insert(last, {.domain = Domain::Last, .sweep = plan.sweeps - 1});
  at->launches.insert(at->launches.begin(), after.begin(), after.end());
}

}  // namespace rnnc
