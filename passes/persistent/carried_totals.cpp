// 1. Find the totals whose elements are the phases' stores, side by side.
// 2. Behind each such store its kernel loads what it has added up so far, adds, and stores that.
// 3. A stage after all steps adds up the sequences' sums; the totals over steps go.
#include "passes/persistent/carried_totals.h"

#include <algorithm>
#include <utility>

#include "passes/lower/kernel_builder.h"
#include "passes/plan/stored_parts.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

/// Whether it is a value of its own for each element of the row, outside of loops.
bool is_vector(const Kernel& kernel, const StoredPart& part) {
  return kernel.arguments[part.argument].count == 1 && kernel.loops.empty() &&
         kernel.body[stored_value(kernel, part.argument)].vector;
}

/// None if kernels of the phases cannot add it up.
std::vector<StoredPart> parts_of(const Plan& plan, const TotalLaunch& total,
                                 const std::vector<FusedLaunch>& phases) {
  std::vector<KernelCall> calls;
  for (const FusedLaunch& phase : phases) {
    calls.push_back({plan.kernels[phase.kernel], phase.accesses});
  }
  std::vector<StoredPart> parts = stored_parts(total, calls);
  const bool can_add = std::ranges::all_of(
      parts, [&](const StoredPart& part) { return is_vector(calls[part.call].kernel, part); });
  return can_add ? parts : std::vector<StoredPart>();
}

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

void add_up(Kernel& kernel, FusedLaunch& phase, const StoredPart& part, const Access& sum) {
  const uint32_t value = stored_value(kernel, part.argument);
  const uint32_t from = add_argument(kernel, phase, sum, /*written=*/false);
  const uint32_t to = add_argument(kernel, phase, sum, /*written=*/true);
  const uint32_t before =
      add_instruction(kernel, {.kind = Kind::Load, .argument = from, .operands = {}});
  const uint32_t after =
      add_instruction(kernel, {.kind = Kind::Scalar, .op = Op::Add, .operands = {before, value}});
  add_instruction(kernel, {.kind = Kind::Store, .argument = to, .operands = {after}});
}

}  // namespace

std::vector<LaunchPlace> totals_to_carry(const Plan& plan, const std::vector<FusedLaunch>& phases) {
  std::vector<LaunchPlace> places;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.stages[s].domain != Domain::Sequence) continue;
    for (size_t i = 0; i < plan.stages[s].launches.size(); ++i) {
      const auto* total = std::get_if<TotalLaunch>(&plan.stages[s].launches[i]);
      if (total != nullptr && !parts_of(plan, *total, phases).empty()) places.push_back({s, i});
    }
  }
  return places;
}

std::vector<BufferId> carry_totals(Plan& plan, std::vector<FusedLaunch>& phases,
                                   const std::vector<LaunchPlace>& totals) {
  std::vector<BufferId> sums;
  for (const LaunchPlace place : totals) {
    const TotalLaunch total = total_at(plan, place);
    const std::vector<StoredPart> parts = parts_of(plan, total, phases);
    sums.push_back(static_cast<BufferId>(plan.buffers.size()));
    plan.buffers.push_back({.name = plan.buffers[total.out.buffer].name,
                            .dtype = DType::f32,
                            .placement = Placement::Workspace,
                            .extent = Extent::Batch,
                            .width = total.m});
    for (const StoredPart& part : parts) {
      FusedLaunch& phase = phases[part.call];
      Kernel kernel = plan.kernels[phase.kernel];
      add_up(kernel, phase, part,
             {.buffer = sums.back(), .column = part.column, .stride = total.m});
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
