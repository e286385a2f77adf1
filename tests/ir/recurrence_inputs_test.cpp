#include "ir/persistent/recurrence_inputs.h"

#include <gtest/gtest.h>

namespace rnnc::test {
namespace {

/// One phase over 48 elements and a batch of 6 with a state of its own and any other arguments.
struct Subject {
  Plan plan;
  std::vector<FusedLaunch> phases;
  RecurrenceTile tile;

  Subject() {
    plan.dtype = DType::bf16;
    plan.batch = 6;
    plan.kernels.emplace_back().length = 48;
    phases.emplace_back();
    tile.groups = 2;
    tile.blocks = 3;
    tile.units = {16};
    tile.warps = 4;
    const Access state = add({.dtype = DType::f32, .vector = true}, 48);
    phases[0].accesses.push_back(state);
    plan.kernels[0].arguments.push_back({.dtype = DType::f32, .vector = true, .written = true});
  }

  Access add(Kernel::Argument argument, int64_t width, int64_t column = 0,
             Extent extent = Extent::Chunk, Placement placement = Placement::Workspace) {
    Buffer& buffer = plan.buffers.emplace_back();
    buffer.dtype = argument.dtype;
    buffer.placement = placement;
    buffer.extent = extent;
    buffer.width = width;
    const Access access = {static_cast<BufferId>(plan.buffers.size() - 1), 0, column, width};
    plan.kernels[0].arguments.push_back(argument);
    phases[0].accesses.push_back(access);
    return access;
  }
  RecurrenceInputs inputs() const { return inputs_of(plan, phases, tile, 0); }
};

constexpr Kernel::Argument kInF32 = {.dtype = DType::f32, .vector = true};
constexpr Kernel::Argument kInBf16 = {.dtype = DType::bf16, .vector = true};

TEST(RecurrenceInputs, AreWhatChangesFromStepToStepAndTheLaunchDoesNotWrite) {
  Subject subject;
  EXPECT_TRUE(subject.inputs().inputs.empty());
  EXPECT_EQ(subject.inputs().step_bytes, 0);
  EXPECT_EQ(subject.inputs().copies, 0);
  subject.add(kInF32, 48, 0, Extent::Invariant);
  EXPECT_TRUE(subject.inputs().inputs.empty());
  subject.add(kInF32, 48);
  const RecurrenceInputs one = subject.inputs();
  ASSERT_EQ(one.inputs.size(), 1u);
  EXPECT_EQ(one.inputs[0].argument, 3u);
  EXPECT_EQ(one.inputs[0].granule, 16);
  EXPECT_EQ(one.inputs[0].row_bytes, 64);
  EXPECT_EQ(one.inputs[0].granules, 3 * 4);
  EXPECT_FALSE(one.inputs[0].is_checked);
  EXPECT_EQ(one.step_bytes, 3 * 64);
  EXPECT_EQ(one.sharers, 128);
  EXPECT_EQ(one.copies, 1);
}

TEST(RecurrenceInputs, AreCopiedTogetherWhereTheyAreAlike) {
  Subject subject;
  subject.add(kInF32, 96);
  subject.add(kInF32, 96, 48);
  subject.add(kInBf16, 48, 0, Extent::Chunk, Placement::Caller);
  subject.add(kInBf16, 48);
  const RecurrenceInputs all = subject.inputs();
  ASSERT_EQ(all.inputs.size(), 4u);
  EXPECT_FALSE(all.inputs[0].joins);
  EXPECT_TRUE(all.inputs[1].joins);
  EXPECT_FALSE(all.inputs[2].joins);
  EXPECT_FALSE(all.inputs[3].joins);
  EXPECT_FALSE(all.inputs[2].is_checked);
  EXPECT_TRUE(all.inputs[3].is_checked);
  EXPECT_EQ(all.inputs[1].offset, 192);
  EXPECT_EQ(all.inputs[2].offset, 384);
  EXPECT_EQ(all.inputs[3].offset, 384 + 96);
  EXPECT_EQ(all.step_bytes, 384 + 192);
  EXPECT_EQ(all.copies, 3);
  subject.plan.batch = 200;  // 100 rows of 4 granules, twice
  EXPECT_EQ(subject.inputs().copies, 7 + 2 + 2);
}

TEST(RecurrenceInputs, AreSideBySideWhereTheyAreAlike) {
  Subject subject;
  subject.add(kInBf16, 48);
  subject.add(kInF32, 48);
  subject.add(kInBf16, 48);
  subject.add(kInF32, 48);
  std::vector<uint32_t> arguments;
  std::vector<bool> joins;
  for (const RecurrenceInput& input : subject.inputs().inputs) {
    arguments.push_back(input.argument);
    joins.push_back(input.joins);
  }
  EXPECT_EQ(arguments, (std::vector<uint32_t>{3, 5, 2, 4}));
  EXPECT_EQ(joins, (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(subject.inputs().copies, 2);
}

TEST(RecurrenceInputs, AreNumbersOfRowsToo) {
  constexpr Kernel::Argument kNumber = {.dtype = DType::f32};
  Subject subject;
  subject.add(kNumber, 1, 0, Extent::Chunk, Placement::Caller);
  subject.add(kInF32, 48);
  subject.add(kNumber, 1);
  subject.add({.dtype = DType::bf16}, 1);  // less than can be copied
  const RecurrenceInputs all = subject.inputs();
  ASSERT_EQ(all.inputs.size(), 3u);
  EXPECT_EQ(all.inputs[0].argument, 3u);
  EXPECT_EQ(all.inputs[1].argument, 2u);
  EXPECT_EQ(all.inputs[1].granule, 4);
  EXPECT_EQ(all.inputs[1].row_bytes, 4);
  EXPECT_EQ(all.inputs[1].granules, 3);
  EXPECT_FALSE(all.inputs[1].is_checked);
  EXPECT_TRUE(all.inputs[2].joins);
  EXPECT_EQ(all.inputs[2].offset, 3 * 64 + 16);
  EXPECT_EQ(all.step_bytes, 3 * 64 + 2 * 16);
  EXPECT_EQ(all.copies, 2);
  subject.tile.own_sums = true;  // each warp would copy all numbers
  EXPECT_EQ(subject.inputs().inputs.size(), 1u);
}

TEST(RecurrenceInputs, HaveGranulesThatRowsAndBlocksAreMultiplesOf) {
  const auto granule = [](int64_t units, int64_t width, int64_t column, Kernel::Argument argument) {
    Subject subject;
    subject.tile.units = {units};
    subject.add(argument, width, column);
    const RecurrenceInputs all = subject.inputs();
    return all.inputs.empty() ? 0 : all.inputs[0].granule;
  };
  EXPECT_EQ(granule(16, 48, 0, kInBf16), 16);
  EXPECT_EQ(granule(16, 52, 0, kInBf16), 8);
  EXPECT_EQ(granule(4, 52, 0, kInBf16), 8);
  EXPECT_EQ(granule(2, 52, 0, kInBf16), 4);
  EXPECT_EQ(granule(16, 50, 0, kInBf16), 4);
  EXPECT_EQ(granule(16, 52, 2, kInBf16), 4);
  EXPECT_EQ(granule(1, 52, 0, kInBf16), 0);  // less than can be copied
  EXPECT_EQ(granule(16, 49, 0, kInBf16), 0);
  EXPECT_EQ(granule(1, 49, 0, kInF32), 4);
}

/// Of aligned rows more is copied than a block's part, from where it is aligned on.
TEST(RecurrenceInputs, OfAlignedRowsAreWholeLoads) {
  struct Case {
    int64_t units, granule, row_bytes, multiple;
  };
  for (const Case& of :
       {Case{16, 16, 32, 1}, Case{8, 16, 16, 1}, Case{12, 16, 32, 8}, Case{4, 16, 16, 8},
        Case{10, 16, 32, 8}, Case{11, 16, 48, 8}, Case{2, 16, 16, 8}, Case{1, 16, 16, 8}}) {
    SCOPED_TRACE(of.units);
    Subject subject;
    subject.tile.units = {of.units};
    subject.add(kInBf16, 48);
    const RecurrenceInputs all = subject.inputs();
    ASSERT_EQ(all.inputs.size(), 1u);
    EXPECT_EQ(all.inputs[0].granule, of.granule);
    EXPECT_EQ(all.inputs[0].row_bytes, of.row_bytes);
    EXPECT_EQ(all.inputs[0].multiple, of.multiple);
    EXPECT_EQ(all.inputs[0].granules, 3 * of.row_bytes / 16);
  }
}

TEST(RecurrenceInputs, AreThoseOfAWarpThatKeepsItsSums) {
  Subject subject;
  subject.tile.units = {64};
  subject.tile.own_sums = true;
  subject.add(kInBf16, 48);
  const RecurrenceInputs all = subject.inputs();
  ASSERT_EQ(all.inputs.size(), 1u);
  EXPECT_EQ(all.inputs[0].granule, 16);
  EXPECT_EQ(all.inputs[0].row_bytes, 128);
  EXPECT_EQ(all.inputs[0].granules, 3 * 2);
  EXPECT_EQ(all.sharers, 32);
}

}  // namespace
}  // namespace rnnc::test
