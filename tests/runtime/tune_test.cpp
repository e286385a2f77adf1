// Which plan is fastest, and remembering it.
#include "runtime/program/tune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/runtime/fake_gpu.h"
#include "tests/runtime/temporary_directory.h"

namespace rnnc::test {
namespace {

namespace fs = std::filesystem;
using Tiles = std::vector<std::string>;

class Tune : public testing::Test {
 protected:
  explicit Tune(const CompileOptions& options = resident_options())
      : planner_(*Planner::make(dense_recurrence(), options)) {
    make_fastest(of_rank(2));
  }

  PlanChoice of_rank(int64_t rank) const {
    PlanChoice choice = planner_.choice();
    choice.tile_rank = rank;
    return choice;
  }
  PlanChoice of_strategy(Strategy strategy) const {
    PlanChoice choice = planner_.choice();
    choice.strategy = strategy;
    return choice;
  }
  PlanChoice launches() const { return {planner_.choice().passes.without(Pass::Resident)}; }
  Tiles tiles(const PlanChoice& choice) const {
    return tiles_of(*planner_.plan(shape_, h200_machine(), choice));
  }
  Plan first() const { return *planner_.plan(shape_, h200_machine(), planner_.choice()); }

  void make_fastest(const PlanChoice& choice) { make_fastest(tiles(choice)); }
  void make_fastest(const Tiles& fastest) {
    gpu_.seconds = [fastest](const Tiles& tiles) { return tiles == fastest ? 1e-4 : 1e-3; };
  }
  PlanChoice tuned() {
    gpu_.timed = 0;
    const Tuned tuned = tune(*planner_.at(shape_, h200_machine()), first(), gpu_, cache_);
    EXPECT_EQ(tuned.note, "");
    return tuned.choice;
  }
  /// The only entry of the cache.
  fs::path entry() const {
    EXPECT_EQ(cache_.usage()->entries, 1);
    return *fs::directory_iterator(directory_.path());
  }

  const Planner planner_;
  const PlanShape shape_{16, 64, {}};
  const TemporaryDirectory directory_;
  const KernelCache cache_{directory_.path()};
  FakeGpu gpu_;
};

TEST_F(Tune, TakesTheFastest) {
  EXPECT_EQ(tuned(), of_rank(2));
  EXPECT_GE(gpu_.timed, 4 * 3);
}

/// A clock is not that exact, and another choice may give other bits.
TEST_F(Tune, StaysWithItsOwnChoiceForLessThanAHundredth) {
  const auto of_third = [this](double seconds) {
    gpu_.seconds = [third = tiles(of_rank(2)), seconds](const Tiles& tiles) {
      return tiles == third ? seconds : 1e-3;
    };
  };
  of_third(0.995e-3);
  EXPECT_EQ(tuned(), planner_.choice());
  gpu_.name = "another GPU";
  of_third(0.985e-3);
  EXPECT_EQ(tuned(), of_rank(2));
}

TEST_F(Tune, TriesTheBestTilesAllStrategiesAndLaunchesOnce) {
  tuned();
  std::vector<Tiles> expected;
  for (int64_t rank = 0; rank < 4; ++rank) expected.push_back(tiles(of_rank(rank)));
  for (const Strategy strategy :
       {Strategy::Cluster, Strategy::Grid, Strategy::Hybrid, Strategy::SplitK}) {
    expected.push_back(tiles(of_strategy(strategy)));
  }
  expected.push_back({});
  ASSERT_EQ(tiles(launches()), Tiles{});
  const std::set<Tiles> different(expected.begin(), expected.end());
  EXPECT_GE(different.size(), 6U);
  EXPECT_EQ(gpu_.prepared.size(), different.size());
  EXPECT_EQ(std::set<Tiles>(gpu_.prepared.begin(), gpu_.prepared.end()), different);
  EXPECT_EQ(gpu_.prepared.front(), expected.front());
}

TEST_F(Tune, MayFindAStrategyOrLaunchesFastest) {
  make_fastest(of_strategy(Strategy::Hybrid));
  const PlanChoice hybrid = tuned();
  EXPECT_EQ(tiles(hybrid), tiles(of_strategy(Strategy::Hybrid)));
  EXPECT_EQ(tuned(), hybrid);
  EXPECT_EQ(gpu_.timed, 0);
  gpu_.name = "another GPU";
  make_fastest(launches());
  EXPECT_EQ(tuned(), launches());
  EXPECT_GT(gpu_.timed, 0);
  EXPECT_EQ(tuned(), launches());
  EXPECT_EQ(gpu_.timed, 0);
}

/// Where the model holds launches faster, too.
class TuneOfManyRows : public Tune {
 protected:
  TuneOfManyRows() : Tune(wide()) {}
  static CompileOptions wide() {
    CompileOptions options = resident_options();
    options.dims = {{"I", 32}, {"H", 3072}};
    return options;
  }
  const PlanShape many_{256, 64, {}};
};

TEST_F(TuneOfManyRows, TriesResidentOnesToo) {
  const Plan model = *planner_.plan(many_, h200_machine(), planner_.choice());
  ASSERT_EQ(tiles_of(model), Tiles{});
  gpu_.seconds = [](const Tiles& tiles) { return tiles.empty() ? 1e-3 : 1e-4; };
  const Tuned found = tune(*planner_.at(many_, h200_machine()), model, gpu_, cache_);
  EXPECT_EQ(found.note, "");
  EXPECT_NE(found.choice.strategy, Strategy::Any);
  EXPECT_EQ(tiles_of(*planner_.plan(many_, h200_machine(), found.choice)).size(), 1U);
}

/// What a half of training reads and writes, gradients that it adds to among these, is made for it.
TEST_F(Tune, TakesTheFastestForEachHalfOfTraining) {
  const Planner& planner = planner_;
  const TrainingOptions options = *planner.complete({.accumulate = true});
  const TrainingGraphs graphs = *planner.differentiate({}, options, h200_machine());
  for (const Graph& half : {graphs.forward, graphs.backward}) {
    const ShapePlanner of_half = planner.at(half, options.residuals, shape_, h200_machine());
    const Plan first = *of_half.plan(planner.choice());
    make_fastest(tiles_of(*of_half.plan(of_rank(1))));
    ASSERT_NE(tiles_of(first), tiles_of(*of_half.plan(of_rank(1))));
    const Tuned found = tune(of_half, first, gpu_, cache_);
    EXPECT_EQ(found.note, "");
    EXPECT_EQ(found.choice, of_rank(1));
  }
}

/// A strategy that was asked for stays.
class TuneOfAStrategy : public Tune {
 protected:
  TuneOfAStrategy() : Tune(grid()) {}
  static CompileOptions grid() {
    CompileOptions options = resident_options();
    options.strategy = Strategy::Grid;
    return options;
  }
};

TEST_F(TuneOfAStrategy, IsOfItsTiles) {
  EXPECT_EQ(tuned(), of_rank(2));
  EXPECT_EQ(gpu_.prepared.size(), 4U);
}

TEST_F(Tune, IsRemembered) {
  ASSERT_EQ(tuned(), of_rank(2));
  const size_t prepared = gpu_.prepared.size();
  gpu_.seconds = [](const Tiles&) { return 1e-3; };
  EXPECT_EQ(tuned(), of_rank(2));
  EXPECT_EQ(gpu_.timed, 0);
  EXPECT_EQ(gpu_.prepared.size(), prepared);
}

TEST_F(Tune, IsMeasuredAnewOnAnotherDevice) {
  ASSERT_EQ(tuned(), of_rank(2));
  gpu_.name = "a GPU with a newer driver";
  make_fastest(of_rank(1));
  EXPECT_EQ(tuned(), of_rank(1));
  EXPECT_GT(gpu_.timed, 0);
  EXPECT_EQ(cache_.usage()->entries, 2);
}

TEST_F(Tune, LeavesOutWhatTheDeviceRefuses) {
  const Tiles refused = tiles(of_rank(2));
  gpu_.refuse = [&](const Tiles& tiles) { return tiles == refused ? "spills" : ""; };
  make_fastest(of_rank(3));
  EXPECT_EQ(tuned(), of_rank(3));
}

/// Choosing a plan says so: it must not look as if launches had won.
TEST_F(Tune, RemembersNothingWhereAllTilesAreRefused) {
  gpu_.refuse = [](const Tiles& tiles) { return tiles.empty() ? "" : "no room"; };
  EXPECT_EQ(tuned(), planner_.choice());
  EXPECT_EQ(cache_.usage()->entries, 0);
}

class TuneWithoutResident : public Tune {
 protected:
  TuneWithoutResident() : Tune(steps()) {}
  static CompileOptions steps() {
    CompileOptions options = resident_options();
    options.passes = options.passes.without(Pass::Resident);
    return options;
  }
};

TEST_F(TuneWithoutResident, MeasuresNothing) {
  EXPECT_EQ(tuned(), planner_.choice());
  EXPECT_TRUE(gpu_.prepared.empty());
}

TEST_F(Tune, DamagedEntriesAreReplaced) {
  ASSERT_EQ(tuned(), of_rank(2));
  const std::string whole = TemporaryDirectory::read(entry());
  for (const std::string& damaged :
       {std::string(), whole.substr(0, whole.size() - 1), whole + "x", std::string(100, '\0')}) {
    std::ofstream(entry(), std::ios::binary) << damaged;
    EXPECT_EQ(tuned(), of_rank(2));
    EXPECT_GT(gpu_.timed, 0);
    EXPECT_EQ(TemporaryDirectory::read(entry()), whole);
  }
}

// As another version of the cost model would leave it, or another program.
TEST_F(Tune, EntriesThatMeanOtherPlansAreReplaced) {
  ASSERT_EQ(tuned(), of_rank(2));
  const std::string whole = TemporaryDirectory::read(entry());
  const std::string key = fmt::format("fastest plan on {}, strategy {}\n{}", gpu_.identity(), "any",
                                      to_string(first()));
  ASSERT_TRUE(cache_.get(key));
  const std::string third = tiles(of_rank(3))[0];
  for (const std::string& other :
       {fmt::format("rank 2\n{}", third), fmt::format("rank 9\n{}", third),
        fmt::format("rank -1\n{}", third), fmt::format("strategy none\n{}", third),
        fmt::format("strategy block\n{}", third), fmt::format("launches\n{}", third),
        std::string("rank 2"), std::string("launches"), std::string("two"), std::string()}) {
    cache_.put(key, other);
    EXPECT_EQ(tuned(), of_rank(2)) << other;
    EXPECT_GT(gpu_.timed, 0) << other;
    EXPECT_EQ(TemporaryDirectory::read(entry()), whole);
  }
  for (const auto& [name, choice] :
       {std::pair("rank 3", of_rank(3)), {"strategy grid", of_strategy(Strategy::Grid)}}) {
    cache_.put(key, fmt::format("{}\n{}", name, tiles(choice)[0]));
    EXPECT_EQ(tuned(), choice);
    EXPECT_EQ(gpu_.timed, 0);
  }
}

TEST_F(Tune, WithoutACacheMeasuresEachTime) {
  const KernelCache none("");
  for (int i = 0; i < 2; ++i) {
    gpu_.timed = 0;
    EXPECT_EQ(tune(*planner_.at(shape_, h200_machine()), first(), gpu_, none).choice, of_rank(2));
    EXPECT_GT(gpu_.timed, 0);
  }
}

TEST_F(Tune, SaysWhenArraysDoNotFit) {
  gpu_.memory = 1000;
  const Tuned tuned = tune(*planner_.at(shape_, h200_machine()), first(), gpu_, cache_);
  EXPECT_EQ(tuned.choice, planner_.choice());
  EXPECT_EQ(tuned.note, "`Elman` at batch 16 is not tuned: too little memory on a GPU");
}

TEST(TuneOption, IsForAGpuAndForAllTiles) {
  CompileOptions options = resident_options();
  options.tune = true;
  EXPECT_TRUE(Planner::make(dense_recurrence(), options));
  options.tile_rank = 1;
  EXPECT_EQ(Planner::make(dense_recurrence(), options).error().message,
            "tune finds the tile itself: it excludes tile_rank");
  options = resident_options();
  options.tune = true;
  options.dtype = DType::f32;
  options.device = {};
  EXPECT_EQ(Planner::make(dense_recurrence(), options).error().message,
            "tune is for a GPU, not for cpu");
  EXPECT_EQ(Planner::make(dense_recurrence(), {.strategy = Strategy::Grid}).error().message,
            "strategy `grid` is for a GPU, not for cpu");
  EXPECT_EQ(Planner::make(dense_recurrence(), {.spare_multiprocessors = 4}).error().message,
            "spare_multiprocessors is for a GPU, and 0 or more, not 4 on cpu");
}

}  // namespace
}  // namespace rnnc::test
