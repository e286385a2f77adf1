// Which plan a device gets that refuses some.
#include "runtime/program/choose_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "passes/tile/recurrence_tiles.h"
#include "tests/runtime/fake_gpu.h"

namespace rnnc::test {
namespace {

using Tiles = std::vector<std::string>;

constexpr PassSet kWithout = PassSet::all().without(Pass::Resident);

class ChoosePlan : public testing::Test {
 protected:
  const PlanShape shape_{16, 64, {}};

  static Planner planner(const CompileOptions& options = resident_options()) {
    Result<Planner> made = Planner::make(dense_recurrence(), options);
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  Plan plan_of(const Planner& planner, const PlanChoice& choice) const {
    Result<Plan> plan = planner.plan(shape_, h200_machine(), choice);
    EXPECT_TRUE(plan) << plan.error().message;
    return *std::move(plan);
  }
  /// Gives the plans to a device that refuses the first so many, and doubts as many after them as it
  /// is told; `seen_` are their tiles.
  ChosenPlan choose(const Planner& planner, size_t refused, size_t doubted = 0) {
    Result<ChosenPlan> chosen = try_to_choose(planner, refused, doubted);
    EXPECT_TRUE(chosen) << chosen.error().message;
    return *std::move(chosen);
  }
  Result<ChosenPlan> try_to_choose(const Planner& planner, size_t refused, size_t doubted = 0) {
    seen_.clear();
    const auto take = [&](const Plan& plan) -> Result<Verdict> {
      seen_.push_back(tiles_of(plan));
      if (seen_.back().empty() || seen_.size() > refused + doubted) return Verdict{};
      if (seen_.size() > refused) return Verdict{.doubt = "slow"};
      return Verdict{.refusal = fmt::format("reason {}", seen_.size())};
    };
    return choose_plan(*planner.at(shape_, h200_machine()), plan_of(planner, planner.choice()),
                       planner.choice(), take);
  }

  std::vector<Tiles> seen_;
};

TEST_F(ChoosePlan, IsTheFirstWhereItIsTaken) {
  const ChosenPlan chosen = choose(planner(), 0);
  EXPECT_EQ(chosen.choice.tile_rank, 0);
  EXPECT_EQ(chosen.choice.passes, PassSet::all());
  EXPECT_EQ(chosen.note, "");
  ASSERT_EQ(seen_.size(), 1U);
  ASSERT_EQ(seen_[0].size(), 1U);
  EXPECT_EQ(tiles_of(chosen.plan), seen_[0]);
}

TEST_F(ChoosePlan, IsThatOfTheNextTilesWhereSomeAreRefused) {
  const Planner all = planner();
  const ChosenPlan chosen = choose(all, 2);
  EXPECT_EQ(chosen.choice.tile_rank, 2);
  EXPECT_EQ(chosen.note, "");
  ASSERT_EQ(seen_.size(), 3U);
  EXPECT_NE(seen_[0], seen_[1]);
  EXPECT_NE(seen_[1], seen_[2]);
  EXPECT_EQ(tiles_of(chosen.plan), seen_[2]);
  EXPECT_EQ(to_string(chosen.plan), to_string(plan_of(all, {PassSet::all(), 2})));
}

TEST_F(ChoosePlan, LeavesRegistersBeforeItTakesOtherTiles) {
  CompileOptions options = resident_options();
  options.dims = {{"I", 32}, {"H", 2048}};
  const Planner large = planner(options);
  const ChosenPlan chosen = choose(large, 1);
  EXPECT_EQ(chosen.choice.tile_rank, 0);
  EXPECT_GT(chosen.choice.spare_registers, 0);
  ASSERT_EQ(seen_.size(), 2U);
  EXPECT_NE(seen_[0], seen_[1]);
  EXPECT_EQ(to_string(chosen.plan), to_string(plan_of(large, chosen.choice)));
}

TEST_F(ChoosePlan, GoesOnFromTheTileThatWasAskedFor) {
  CompileOptions options = resident_options();
  options.tile_rank = 3;
  const Planner third = planner(options);
  EXPECT_EQ(choose(third, 0).choice.tile_rank, 3);
  EXPECT_EQ(seen_[0], tiles_of(plan_of(third, {PassSet::all(), 3})));
  EXPECT_GT(choose(third, 3).choice.tile_rank, 3);
}

TEST_F(ChoosePlan, DoesWithoutResidentRecurrencesInTheEnd) {
  const Planner all = planner();
  const ChosenPlan chosen = choose(all, 5);
  EXPECT_EQ(chosen.choice.passes, kWithout);
  EXPECT_EQ(chosen.choice.tile_rank, 0);
  EXPECT_EQ(chosen.note, "`Elman` at batch 16 runs without resident weights: reason 1");
  ASSERT_EQ(seen_.size(), 6U);
  EXPECT_EQ(tiles_of(chosen.plan), Tiles{});
  EXPECT_EQ(to_string(chosen.plan), to_string(plan_of(all, {kWithout, 0})));
}

TEST_F(ChoosePlan, IsTheNextWhereThereIsADoubt) {
  const Planner all = planner();
  const ChosenPlan chosen = choose(all, 1, 1);
  ASSERT_EQ(seen_.size(), 3U);
  EXPECT_EQ(tiles_of(chosen.plan), seen_[2]);
  EXPECT_EQ(chosen.choice.tile_rank, 2);
  EXPECT_EQ(chosen.note, "");
}

// The device has it last, since that is the one which runs.
TEST_F(ChoosePlan, IsTheFirstOfDoubtWhereNoneIsBetter) {
  const Planner all = planner();
  for (const size_t refused : {0U, 2U}) {
    const ChosenPlan chosen = choose(all, refused, 9);
    ASSERT_EQ(seen_.size(), 6U);
    EXPECT_EQ(seen_[5], seen_[refused]);
    EXPECT_EQ(tiles_of(chosen.plan), seen_[refused]);
    EXPECT_EQ(to_string(chosen.plan), to_string(plan_of(all, chosen.choice)));
    EXPECT_EQ(chosen.note, "");
  }
}

TEST_F(ChoosePlan, KeepsToAStrategy) {
  for (const Strategy strategy : {Strategy::Cluster, Strategy::Grid}) {
    CompileOptions options = resident_options();
    options.strategy = strategy;
    const Planner of_strategy = planner(options);
    const ChosenPlan chosen = choose(of_strategy, 3);
    ASSERT_EQ(seen_.size(), 4U);
    for (const Stage& stage : chosen.plan.stages) {
      if (!is_resident(stage)) continue;
      EXPECT_EQ(strategy_of(std::get<RecurrenceLaunch>(stage.launches[0])), strategy);
    }
    const Result<ChosenPlan> none = try_to_choose(of_strategy, 9);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().message,
              fmt::format("`Elman` at batch 16 cannot run with strategy `{}`: reason 1 (leave the "
                          "strategy out, and rnnc finds a way)",
                          to_string(strategy)));
    EXPECT_EQ(seen_.size(), 5U);
  }
}

// It is not compiled twice.
TEST_F(ChoosePlan, TriesATileOnce) {
  CompileOptions options = resident_options();
  options.dims = {{"I", 8}, {"H", 8}};
  const Planner small = planner(options);
  choose(small, 9);
  EXPECT_LE(seen_.size(), 6U);
  EXPECT_EQ(std::set(seen_.begin(), seen_.end()).size(), seen_.size());
}

TEST_F(ChoosePlan, ErrorsAreNoRefusals) {
  const Planner all = planner();
  const auto take = [](const Plan&) -> Result<Verdict> { return fail("the device is gone"); };
  const Result<ChosenPlan> chosen =
      choose_plan(*all.at(shape_, h200_machine()), plan_of(all, all.choice()), all.choice(), take);
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().message, "the device is gone");
}

}  // namespace
}  // namespace rnnc::test
