// Sums in the rows of a table, of more rows than a block takes names of at a time.
#include <gtest/gtest.h>

#include "codegen/cuda/device/prelude.h"
#include "tests/emulator/tests/emulated_unit.h"

namespace rnnc::test {
namespace {

constexpr int64_t kRows = 700;
constexpr int64_t kNames = 5;
constexpr int64_t kWidth = 300;
constexpr unsigned kBlocksOfNames = 3;

/// Names too small and too large among them, of which nothing is added.
int name_of(int64_t row) {
  return static_cast<int>(row * row % (kNames + 2)) - 1;
}

/// Blocks for all columns, or for some of them, which then go over the others too.
class EmulatedTableRows : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(BlocksOfColumns, EmulatedTableRows, testing::Values(1, 2));

TEST_P(EmulatedTableRows, AddUpOverAllTurnsOfABlock) {
  const EmulatedUnit unit("#define has_rnnc_add_rows_f32 1\n" + std::string(kCudaSequence));
  std::vector<int> names;
  std::vector<float> values;
  std::vector<float> sums(kNames * kWidth, 0.25F);
  const DeviceNumbers<float> out(sums);
  for (int64_t row = 0; row < kRows; ++row) {
    names.push_back(name_of(row));
    for (int64_t column = 0; column < kWidth; ++column) {
      values.push_back(static_cast<float>(row * 7 % 61 + column % 13));  // sums are exact
      const bool known = names.back() >= 0 && names.back() < kNames;
      if (known) sums[static_cast<size_t>(names.back() * kWidth + column)] += values.back();
    }
  }
  const DeviceNumbers<int> index(names);
  const DeviceNumbers<float> value(values);
  const int64_t count = kNames;
  const int64_t name_stride = 1;
  const dim3 grid(kBlocksOfNames, GetParam());
  ASSERT_EQ(unit.launch("rnnc_add_rows_f32", {.grid = grid, .block = 256}, index.data(),
                        value.data(), out.data(), kRows, count, kWidth, name_stride, kWidth),
            cudaSuccess);
  EXPECT_EQ(out.get(), sums);
}

}  // namespace
}  // namespace rnnc::test
