// How the launches of a step are divided, and where slices wait for one another.
#include "runtime/cpu/slices.h"

#include <gtest/gtest.h>

#include "tests/cpu/plan_maker.h"

namespace rnnc::test {
using namespace cpu;

namespace {

using Barriers = std::vector<bool>;

/// A Step stage of elementwise launches, each target = twice source, ready to be divided.
class Prepared {
 public:
  explicit Prepared(PlanMaker& maker)
      : plan(maker.plan), stage(maker.plan.stages.back()), module_(compile(maker.plan)) {
    for (const Launch& launch : stage.launches) {
      const auto& elementwise = std::get<ElementwiseLaunch>(launch);
      launches.push_back(
          prepare_elementwise(plan, *module_, elementwise.kernel, elementwise.accesses));
    }
  }

  Slices slices(bool by_columns, int64_t count) const {
    return make_slices(plan, stage, launches, by_columns, count);
  }

  const Plan& plan;
  const Stage& stage;
  std::vector<std::unique_ptr<PreparedLaunch>> launches;

 private:
  std::unique_ptr<CpuModule> module_;
};

Access before(Access access) {
  access.delay = 1;
  return access;
}

TEST(Slices, CoverEveryRowOrColumnOnce) {
  PlanMaker maker(DType::f32, 7, 4, 200);
  const Access output = maker.output(200);
  const ElementwiseLaunch launch = maker.twice(maker.input, output, 200);
  maker.stage(Domain::Step).launches = {launch};
  const Prepared prepared(maker);
  for (const bool by_columns : {false, true}) {
    const Slices slices = prepared.slices(by_columns, 3);
    EXPECT_EQ(slices.barriers, Barriers{false});
    int64_t row = 0;
    int64_t tile = 0;
    for (const auto& parts : slices.parts) {
      EXPECT_EQ(parts[0].row_begin, row);
      EXPECT_EQ(parts[0].tile_begin, tile);
      if (by_columns) {
        tile = parts[0].tile_end;
      } else {
        row = parts[0].row_end;
      }
    }
    EXPECT_EQ(by_columns ? tile : row, by_columns ? prepared.launches[0]->tiles : 7);
  }
}

// Element j of the one is element j of the other; in columns of another launch's row it is not.
TEST(Slices, MeetWhereColumnsMove) {
  PlanMaker maker(DType::f32, 4, 4, 128);
  const Access a = maker.state("a", 128);
  const Access b = maker.chunk("b", 128);
  Access half = b;
  half.column = 64;
  const Access output = maker.output(128);
  const Access other = maker.output(64);
  const std::vector<Launch> launches = {maker.twice(before(a), b, 128), maker.twice(b, a, 128),
                                        maker.twice(half, other, 64),
                                        maker.twice(maker.input, output, 128)};
  maker.stage(Domain::Step).launches = launches;
  const Prepared prepared(maker);
  EXPECT_EQ(prepared.slices(false, 4).barriers, Barriers(4));
  // b is read at other places by the third, before the next step's first writes it.
  EXPECT_EQ(prepared.slices(true, 2).barriers, (Barriers{true, false, true, false}));
  EXPECT_EQ(prepared.slices(true, 1).barriers, Barriers(4));
}

// Slices of rows are at different steps; memory that two values share is in the way if their rows
// do not lie at the same places.
TEST(Slices, MeetWhereMemoryIsUsedTwice) {
  for (const int64_t width : {64, 32}) {
    PlanMaker maker(DType::f32, 4, 4, 64);
    const auto batch = [&](const std::string& name, int64_t elements) {
      return Access{maker.add(name, Placement::Workspace, Role::Temporary, Extent::Batch, elements),
                    0, 0, elements};
    };
    const Access a = batch("a", 64);
    const Access b = batch("b", width);
    maker.plan.buffers[b.buffer].offset = maker.plan.buffers[a.buffer].offset;
    const Access first = maker.output(64);
    const Access second = maker.output(width);
    const std::vector<Launch> launches = {
        maker.twice(maker.input, a, 64), maker.twice(a, first, 64),
        maker.twice(maker.input, b, width), maker.twice(b, second, width)};
    maker.stage(Domain::Step).launches = launches;
    const Prepared prepared(maker);
    EXPECT_EQ(prepared.slices(false, 2).barriers,
              width == 64 ? Barriers(4) : (Barriers{true, false, true, false}));
  }
}

TEST(Slices, SmallStepsStayOnOneThread) {
  PlanMaker maker(DType::f32, 2, 64, 16);
  const Access output = maker.output(16);
  const ElementwiseLaunch launch = maker.twice(maker.input, output, 16);
  maker.stage(Domain::Step).launches = {launch};
  const Prepared prepared(maker);
  EXPECT_EQ(choose_slices(prepared.plan, prepared.stage, prepared.launches, 16, 8).parts.size(), 1);
}

TEST(Slices, ManyRowsGoToAllThreads) {
  PlanMaker maker(DType::f32, 64, 64, 4096);
  const Access output = maker.output(4096);
  const ElementwiseLaunch launch = maker.twice(maker.input, output, 4096);
  maker.stage(Domain::Step).launches = {launch};
  const Prepared prepared(maker);
  EXPECT_EQ(choose_slices(prepared.plan, prepared.stage, prepared.launches, 16, 6).parts.size(), 6);
}

}  // namespace
}  // namespace rnnc::test
