// 1. Give the device the plan as it was asked for.
// 2. While it refuses: the plan with the next best tiles, a few times, until there are no others.
// 3. Then the plan without resident recurrences, and a note with the first reason.
#include "runtime/choose_plan.h"

#include "passes/build_plan.h"
#include "runtime/describe.h"

namespace rnnc {
namespace {

/// Each is compiled anew.
constexpr int64_t kMostTiles = 4;

}  // namespace

Result<ChosenPlan> choose_plan(const Planner& planner, const PlanShape& shape,
                               const Machine& machine, Plan first, const PlanChoice& choice,
                               const TakePlan& take) {
  ChosenPlan chosen{.plan = std::move(first), .choice = choice};
  std::string reason;  // of the first refusal
  for (int64_t tries = 1;; ++tries) {
    const Result<std::string> refusal = take(chosen.plan);
    if (!refusal) return tl::unexpected(refusal.error());
    if (refusal->empty()) return chosen;
    if (reason.empty()) reason = *refusal;
    if (tries == kMostTiles || chosen.choice.tile_rank == kMostTileRank) break;
    ++chosen.choice.tile_rank;
    Result<Plan> next = planner.plan(shape, machine, chosen.choice);
    if (!next) return tl::unexpected(next.error());
    if (tiles_of(*next) == tiles_of(chosen.plan)) break;
    chosen.plan = *std::move(next);
  }
  chosen.choice = {choice.passes.without(Pass::Resident), 0};
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
