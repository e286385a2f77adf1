// 1. Give the device the plan as it was asked for.
// 2. While it refuses, or there is a doubt: those of the choices that are to be tried next
//    (passes/candidates.h); a few times, until there are no others.
// 3. Then the first of doubt. If there is none, the plan without resident recurrences, and a note
//    with the first reason; or, if a strategy was asked for, an error with it.
#include "runtime/program/choose_plan.h"

#include <algorithm>
#include <optional>
#include <set>

#include "passes/candidates.h"
#include "runtime/base/describe.h"

namespace rnnc {
namespace {

/// Each is compiled anew.
constexpr size_t kMostTiles = 5;

}  // namespace

Result<ChosenPlan> choose_plan(const ShapePlanner& planner, Plan first, const PlanChoice& choice,
                               const TakePlan& take) {
  ChosenPlan chosen{.plan = std::move(first), .choice = choice};
  const std::string& name = planner.planner().signature().name;
  const int64_t batch = planner.shape().batch;
  const Strategy strategy = planner.planner().options().strategy;  // that was asked for
  std::string reason;                                              // of the first refusal
  std::optional<ChosenPlan> doubtful;                              // the first
  std::set<std::vector<std::string>> tried;
  int64_t last_rank = choice.tile_rank;  // of which there are tiles that were not tried
  while (chosen.choice.tile_rank <= std::min(last_rank + 1, kMostTileRank)) {
    if (tried.insert(tiles_of(chosen.plan)).second) {
      last_rank = chosen.choice.tile_rank;
      const Result<Verdict> verdict = take(chosen.plan);
      if (!verdict) return tl::unexpected(verdict.error());
      if (verdict->refusal.empty()) {
        chosen.note = chosen.plan.note;
        if (verdict->doubt.empty()) return chosen;
        if (!doubtful) doubtful = chosen;
      } else if (reason.empty()) {
        reason = verdict->refusal;
      }
      if (tried.size() == kMostTiles) break;
    }
    chosen.choice = next_choice(chosen.choice);
    Result<Plan> next = planner.plan(chosen.choice);
    // A strategy may have no tile with fewer registers.
    if (!next && choice.strategy == Strategy::Any) return tl::unexpected(next.error());
    if (next) chosen.plan = *std::move(next);
  }
  if (doubtful) {
    const Result<Verdict> again = take(doubtful->plan);
    if (!again) return tl::unexpected(again.error());
    RNNC_CHECK(again->refusal.empty(), "{}", again->refusal);
    return *std::move(doubtful);
  }
  if (strategy != Strategy::Any) {
    return refuse_strategy(name, batch, strategy, reason);
  }
  chosen.choice = {choice.passes.without(Pass::Resident)};
  Result<Plan> without = planner.plan(chosen.choice);
  if (!without) return tl::unexpected(without.error());
  chosen.plan = *std::move(without);
  const Result<Verdict> verdict = take(chosen.plan);
  if (!verdict) return tl::unexpected(verdict.error());
  RNNC_CHECK(verdict->refusal.empty(), "{}", verdict->refusal);
  chosen.note =
      fmt::format("{} at batch {} runs without resident weights: {}", quote(name), batch, reason);
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
