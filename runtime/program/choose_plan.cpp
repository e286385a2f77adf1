// 1. Give the device the plan as it was asked for.
// 2. While it refuses: the plan with fewer weights in registers, since what spills is most often
//    just too much, and then with the next best tiles; a few times, until there are no others.
// 3. Then the plan without resident recurrences, and a note with the first reason; or, if a
//    strategy was asked for, an error with it.
#include "runtime/program/choose_plan.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "passes/build_plan.h"
#include "runtime/base/describe.h"

namespace rnnc {
namespace {

/// Each is compiled anew.
constexpr size_t kMostTiles = 5;
constexpr int64_t kSpare[] = {0, 24, 72};  // registers of a thread

/// The choice to try after one that was refused.
PlanChoice next_choice(PlanChoice choice) {
  const auto* const more = std::ranges::upper_bound(kSpare, choice.spare_registers);
  if (more != std::end(kSpare)) {
    choice.spare_registers = *more;
  } else {
    choice.spare_registers = kSpare[0];
    ++choice.tile_rank;
  }
  return choice;
}

}  // namespace

Result<ChosenPlan> choose_plan(const Planner& planner, const PlanShape& shape,
                               const Machine& machine, Plan first, const PlanChoice& choice,
                               const TakePlan& take) {
  ChosenPlan chosen{.plan = std::move(first), .choice = choice};
  const Strategy strategy = planner.options().strategy;  // that was asked for
  std::string reason;                                    // of the first refusal
  std::set<std::vector<std::string>> tried;
  int64_t last_rank = choice.tile_rank;  // of which there are tiles that were not tried
  while (chosen.choice.tile_rank <= std::min(last_rank + 1, kMostTileRank)) {
    if (tried.insert(tiles_of(chosen.plan)).second) {
      last_rank = chosen.choice.tile_rank;
      const Result<std::string> refusal = take(chosen.plan);
      if (!refusal) return tl::unexpected(refusal.error());
      if (refusal->empty()) {
        chosen.note = chosen.plan.note;
        return chosen;
      }
      if (reason.empty()) reason = *refusal;
      if (tried.size() == kMostTiles) break;
    }
    chosen.choice = next_choice(chosen.choice);
    Result<Plan> next = planner.plan(shape, machine, chosen.choice);
    // A strategy may have no tile with fewer registers.
    if (!next && choice.strategy == Strategy::Any) return tl::unexpected(next.error());
    if (next) chosen.plan = *std::move(next);
  }
  if (strategy != Strategy::Any) {
    return refuse_strategy(planner.signature().name, shape.batch, strategy, reason);
  }
  chosen.choice = {choice.passes.without(Pass::Resident)};
  Result<Plan> without = planner.plan(shape, machine, chosen.choice);
  if (!without) return tl::unexpected(without.error());
  chosen.plan = *std::move(without);
  const Result<std::string> refusal = take(chosen.plan);
  if (!refusal) return tl::unexpected(refusal.error());
  RNNC_CHECK(refusal->empty(), "{}", *refusal);
  chosen.note = fmt::format("{} at batch {} runs without resident weights: {}",
                            quote(planner.signature().name), shape.batch, reason);
  return chosen;
}

std::vector<std::string> tiles_of(const Plan& plan) {
  std::vector<std::string> tiles;
  for (const Stage& stage : plan.stages) {
    for (const Launch& launch : stage.launches) {
      const auto* recurrence = std::get_if<RecurrenceLaunch>(&launch);
      if (recurrence != nullptr) tiles.push_back(to_string(recurrence->tile));
    }
  }
  return tiles;
}

}  // namespace rnnc
