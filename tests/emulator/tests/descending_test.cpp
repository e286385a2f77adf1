// What ends a chunk of a descending plan, and sums of rows, kernel by kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "codegen/cuda/device/kernel_abi.h"
#include "codegen/cuda/device/prelude.h"
#include "ir/base/arithmetic.h"
#include "tests/emulator/tests/emulated_unit.h"

namespace rnnc::test {
namespace {

/// A buffer of `depth` slots behind those of a chunk.
struct History {
  int64_t chunk = 1;
  int64_t depth = 1;
  int64_t units = 1;
};

void check_move(const EmulatedUnit& unit, const History& of) {
  SCOPED_TRACE(fmt::format("{} slots of {} behind {}", of.depth, of.units, of.chunk));
  std::vector<uint16_t> values(static_cast<size_t>((of.chunk + of.depth) * of.units));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(i);
  const DeviceNumbers<uint16_t> memory(values);
  const DeviceNumbers<int64_t> frame({8, 100, 0});
  const uint16_t* last = memory.data() + (of.chunk + of.depth - 1) * of.units;
  CudaHistories histories;
  histories.history[0] = {reinterpret_cast<int64_t>(last), of.units, static_cast<int32_t>(of.depth),
                          -1};
  Plan descending;
  descending.descending = true;
  EXPECT_EQ(unit.launch(cuda_end_chunk_name(descending).c_str(), {.grid = 3, .block = 32},
                        frame.data(), static_cast<int>(of.chunk), 1, 1, histories),
            cudaSuccess);
  std::memmove(values.data() + of.chunk * of.units, values.data(),
               static_cast<size_t>(of.depth * of.units) * sizeof(uint16_t));
  EXPECT_EQ(memory.get(), values);
  EXPECT_EQ(frame.get()[0], 8 + of.chunk);
}

TEST(EmulatedDescent, MovesHistoriesOn) {
  const EmulatedUnit unit{std::string(kCudaDescending)};
  for (const int64_t chunk : {1, 2, 5}) {
    for (const int64_t depth : {1, 2, 3, 7}) {
      for (const int64_t units : {1, 3, 8, 120}) check_move(unit, {chunk, depth, units});
    }
  }
}

TEST(EmulatedDescent, LeavesTheLastWaveAlone) {
  const EmulatedUnit unit{std::string(kCudaDescending)};
  const DeviceNumbers<float> memory({1, 2});
  const DeviceNumbers<int64_t> frame({6, 8, 0});
  CudaHistories histories;
  histories.history[0] = {reinterpret_cast<int64_t>(memory.data() + 1), 2, 1, -1};
  EXPECT_EQ(unit.launch("rnnc_end_descending_chunk", {}, frame.data(), 2, 1, 1, histories),
            cudaSuccess);
  EXPECT_EQ(memory.get(), (std::vector<float>{1, 2}));
  EXPECT_EQ(frame.get()[0], 6);
}

/// Of small whole numbers, whose sums are exact.
template <typename T, typename Make>
void check_sums(const EmulatedUnit& unit, int type, const Make& make) {
  for (const int64_t rows : {1, 15, 16, 200, 1000}) {
    for (const int64_t columns : {1, 31, 32, 70}) {
      for (const int64_t slices : {1, 3}) {
        SCOPED_TRACE(fmt::format("{} rows of {} in {} slices", rows, columns, slices));
        const int64_t stride = columns + 3;
        std::vector<T> values;
        std::vector<float> expected(static_cast<size_t>(slices * columns), 5);
        const int64_t per_slice = ceil_div(rows, slices);
        for (int64_t i = 0; i < rows * stride; ++i) {
          const auto number = static_cast<float>(i % 7 - 3);
          values.push_back(make(number));
          if (i % stride >= columns) continue;
          expected[static_cast<size_t>(i / stride / per_slice * columns + i % stride)] += number;
        }
        const DeviceNumbers<T> left(values);
        const DeviceNumbers<float> out(std::vector<float>(expected.size(), 5));
        const dim3 grid(static_cast<unsigned>(ceil_div(columns, kCudaTotalColumns)),
                        static_cast<unsigned>(slices));
        EXPECT_EQ(
            unit.launch(kCudaTotalName,
                        {.grid = grid, .block = dim3(kCudaTotalColumns / 2, kCudaTotalThreads)},
                        left.data(), type, static_cast<long long>(stride),
                        static_cast<long long>(rows), static_cast<long long>(per_slice),
                        static_cast<long long>(columns), out.data(), 1),
            cudaSuccess);
        EXPECT_EQ(out.get(), expected);
      }
    }
  }
}

TEST(EmulatedTotals, AddUpRows) {
  const EmulatedUnit unit{std::string(kCudaTotals)};
  check_sums<float>(unit, 0, [](float value) { return value; });
  check_sums<uint16_t>(unit, 1, bf16_from_float);
  check_sums<uint16_t>(unit, 2, f16_from_float);
}

TEST(EmulatedTotals, HaveMoreSlicesOfMoreRows) {
  for (const int64_t columns : {1, 64, 1000, 8192, 1 << 20}) {
    int64_t before = 1;
    for (int64_t rows = 1; rows < 200'000; rows = rows * 3 / 2 + 1) {
      const int64_t slices = cuda_row_slices(rows, columns);
      EXPECT_GE(slices, before);
      EXPECT_LE(slices, rows);
      before = slices;
    }
  }
}

}  // namespace
}  // namespace rnnc::test
