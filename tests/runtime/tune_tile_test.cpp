// Which tile is fastest, and remembering it.
#include "runtime/tune_tile.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runtime/fake_gpu.h"
#include "tests/runtime/temporary_directory.h"

namespace rnnc::test {
namespace {

namespace fs = std::filesystem;
using Tiles = std::vector<std::string>;

class TuneTile : public testing::Test {
 protected:
  TuneTile() : planner_(*Planner::make(dense_recurrence(), resident_options())) {
    gpu_.seconds = [this](const Tiles& tiles) { return tiles == tiles_of(plan(2)) ? 1e-4 : 1e-3; };
  }

  Plan plan(int64_t rank) const {
    return *planner_.plan(shape_, h200_machine(), {PassSet::all(), rank});
  }
  int64_t tune() {
    gpu_.timed = 0;
    const TunedTile tuned = tune_tile(planner_, shape_, plan(0), gpu_, cache_);
    EXPECT_EQ(tuned.note, "");
    return tuned.rank;
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

TEST_F(TuneTile, IsTheFastestOfAFew) {
  EXPECT_EQ(tune(), 2);
  ASSERT_EQ(gpu_.prepared.size(), 4U);
  for (int64_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(gpu_.prepared[static_cast<size_t>(rank)], tiles_of(plan(rank)));
  }
  EXPECT_GE(gpu_.timed, 4 * 3);
}

TEST_F(TuneTile, IsRemembered) {
  ASSERT_EQ(tune(), 2);
  gpu_.seconds = [](const Tiles&) { return 1e-3; };
  EXPECT_EQ(tune(), 2);
  EXPECT_EQ(gpu_.timed, 0);
  EXPECT_EQ(gpu_.prepared.size(), 4U);
}

TEST_F(TuneTile, IsMeasuredAnewOnAnotherDevice) {
  ASSERT_EQ(tune(), 2);
  gpu_.name = "a GPU with a newer driver";
  gpu_.seconds = [this](const Tiles& tiles) { return tiles == tiles_of(plan(1)) ? 1e-4 : 1e-3; };
  EXPECT_EQ(tune(), 1);
  EXPECT_GT(gpu_.timed, 0);
  EXPECT_EQ(cache_.usage()->entries, 2);
}

TEST_F(TuneTile, LeavesOutWhatTheDeviceRefuses) {
  gpu_.refuse = [this](const Tiles& tiles) { return tiles == tiles_of(plan(2)) ? "spills" : ""; };
  gpu_.seconds = [this](const Tiles& tiles) { return tiles == tiles_of(plan(3)) ? 1e-4 : 1e-3; };
  EXPECT_EQ(tune(), 3);
}

TEST_F(TuneTile, RemembersNothingWhereAllAreRefused) {
  gpu_.refuse = [](const Tiles&) { return "no room"; };
  EXPECT_EQ(tune(), 0);
  EXPECT_EQ(gpu_.timed, 0);
  EXPECT_EQ(cache_.usage()->entries, 0);
}

TEST_F(TuneTile, NothingToTuneIsNotMeasured) {
  const Plan steps =
      *planner_.plan(shape_, h200_machine(), {PassSet::all().without(Pass::Resident), 0});
  EXPECT_EQ(tune_tile(planner_, shape_, steps, gpu_, cache_).rank, 0);
  EXPECT_TRUE(gpu_.prepared.empty());
}

TEST_F(TuneTile, DamagedEntriesAreReplaced) {
  ASSERT_EQ(tune(), 2);
  const std::string whole = TemporaryDirectory::read(entry());
  for (const std::string& damaged :
       {std::string(), whole.substr(0, whole.size() - 1), whole + "x", std::string(100, '\0')}) {
    std::ofstream(entry(), std::ios::binary) << damaged;
    EXPECT_EQ(tune(), 2);
    EXPECT_GT(gpu_.timed, 0);
    EXPECT_EQ(TemporaryDirectory::read(entry()), whole);
  }
}

// As another version of the cost model would leave it, or another program.
TEST_F(TuneTile, EntriesThatMeanOtherTilesAreReplaced) {
  ASSERT_EQ(tune(), 2);
  const std::string whole = TemporaryDirectory::read(entry());
  const std::string key = fmt::format("fastest tile on {}, strategy {}\n{}", gpu_.identity(), "any",
                                      to_string(plan(0)));
  ASSERT_TRUE(cache_.get(key));
  const std::string tiles = tiles_of(plan(3))[0];
  for (const std::string& other :
       {fmt::format("2\n{}", tiles), fmt::format("9\n{}", tiles), fmt::format("-1\n{}", tiles),
        std::string("2"), std::string("two"), std::string()}) {
    cache_.put(key, other);
    EXPECT_EQ(tune(), 2) << other;
    EXPECT_GT(gpu_.timed, 0) << other;
    EXPECT_EQ(TemporaryDirectory::read(entry()), whole);
  }
  cache_.put(key, fmt::format("3\n{}", tiles));
  EXPECT_EQ(tune(), 3);
  EXPECT_EQ(gpu_.timed, 0);
}

TEST_F(TuneTile, WithoutACacheMeasuresEachTime) {
  const KernelCache none("");
  for (int i = 0; i < 2; ++i) {
    gpu_.timed = 0;
    EXPECT_EQ(tune_tile(planner_, shape_, plan(0), gpu_, none).rank, 2);
    EXPECT_GT(gpu_.timed, 0);
  }
}

TEST_F(TuneTile, SaysWhenArraysDoNotFit) {
  gpu_.memory = 1000;
  const TunedTile tuned = tune_tile(planner_, shape_, plan(0), gpu_, cache_);
  EXPECT_EQ(tuned.rank, 0);
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
            "strategy is for a GPU, not for cpu");
}

}  // namespace
}  // namespace rnnc::test
