// Parts of f32 operands as the kernel of split launches makes them; programs with such launches are
// in tests/gpu/split_test.cpp.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "codegen/cuda/device/kernel_abi.h"
#include "codegen/cuda/device/prelude.h"
#include "tests/emulator/tests/emulated_unit.h"

namespace rnnc::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kGreatest = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

bool is_tf32(float value) {
  return (std::bit_cast<uint32_t>(value) & 0x1FFFU) == 0;
}

/// `values` in rows of `length`, one behind the other from `first` on, split.
std::vector<float> split(const EmulatedUnit& unit, const std::vector<float>& values, int64_t first,
                         int64_t length, int64_t part, bool weight) {
  const auto rows = (std::ssize(values) - first) / length;
  const DeviceNumbers<float> source(values);
  const DeviceNumbers<float> target(std::vector<float>(static_cast<size_t>(rows * 3 * part), 7));
  const float most = weight ? kMostSplitWeight : kMostSplitLeft;
  const LaunchOptions options{.grid = dim3(static_cast<unsigned>((part + 127) / 128), 2),
                              .block = dim3(kCudaSplitThreads, kCudaSplitRows)};
  EXPECT_EQ(unit.launch(kCudaSplitName, options, source.data() + first, target.data(),
                        weight ? 1 : 0, most, static_cast<long long>(rows),
                        static_cast<long long>(length), static_cast<long long>(part),
                        static_cast<long long>(length), static_cast<long long>(3 * part)),
            cudaSuccess);
  return target.get();
}

/// The three parts of one element.
void check_parts(float value, const float (&parts)[3], bool weight) {
  SCOPED_TRACE(fmt::format("{} of {}", value, weight ? "a weight" : "a left operand"));
  const float large = parts[weight ? 1 : 0];
  const float small = parts[weight ? 0 : 1];
  const float all = parts[2];
  EXPECT_TRUE(is_tf32(all));
  EXPECT_EQ(std::isnan(all), std::isnan(value));
  EXPECT_EQ(std::isinf(all), std::isinf(value));
  EXPECT_EQ(all == 0, value == 0);
  EXPECT_EQ(std::signbit(all), std::signbit(value));
  if (std::abs(all) < (weight ? kMostSplitWeight : kMostSplitLeft)) {
    EXPECT_EQ(large, all);
    EXPECT_EQ(double(large) + small, value);
    EXPECT_LE(std::abs(small), std::max(0x1p-11F * std::abs(value), 0x1p-136F));
  } else {
    EXPECT_EQ(large, 0);
    EXPECT_EQ(small, 0);
    if (std::isfinite(value)) {
      EXPECT_LE(std::abs(all - value), 0x1p-10F * std::abs(value));
    }
  }
}

TEST(EmulatedSplit, PartsOfRowsOfEveryLength) {
  const EmulatedUnit unit{"#define has_rnnc_split 1\n" + std::string(kCudaSequence)};
  const std::vector<float> special = {
      kInfinity, -kInfinity, kNan,       0.0F,    -0.0F,   kTiny,  -kTiny, 1e-42F,
      1e-38F,    kGreatest,  -kGreatest, 1.3e30F, 1.2e30F, 6.8e7F, 6.7e7F, 0x1.FFFFFEP0F};
  for (const int64_t length : {1, 3, 4, 7, 33, 128, 300}) {
    for (const int64_t first : {0, 1}) {  // whether rows are aligned
      for (const bool weight : {false, true}) {
        const int64_t part = (length + 3) / 4 * 4;
        const int64_t rows = 19;
        std::vector<float> values;
        for (int64_t i = 0; i < first + rows * length; ++i) {
          const auto at = static_cast<size_t>(i);
          values.push_back(i % 5 == 0 ? special[at / 5 % special.size()]
                                      : std::sin(1.7F * static_cast<float>(i)));
        }
        const std::vector<float> target = split(unit, values, first, length, part, weight);
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t i = 0; i < part; ++i) {
            float parts[3];
            for (int64_t p = 0; p < 3; ++p) {
              parts[p] = target[static_cast<size_t>((row * 3 + p) * part + i)];
            }
            const float value =
                i < length ? values[static_cast<size_t>(first + row * length + i)] : 0;
            check_parts(value, parts, weight);
          }
        }
      }
    }
  }
}

/// The same numbers as rows of parts have, in columns.
TEST(EmulatedSplit, TurnsRowsToColumns) {
  const EmulatedUnit by_rows{"#define has_rnnc_split 1\n" + std::string(kCudaSequence)};
  const EmulatedUnit unit{"#define has_rnnc_split_turned 1\n" + std::string(kCudaSequence)};
  const int64_t rows = 75;
  for (const int64_t length : {1, 3, 7, 33, 64}) {
    for (const int64_t parts : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} of {} parts", length, parts));
      const int64_t part = (length + 3) / 4 * 4;
      const int64_t apart = (rows + 5) * parts;  // of a chunk that has more rows
      std::vector<float> values;
      for (int64_t i = 0; i < rows * length; ++i) {
        values.push_back(std::sin(1.7F * static_cast<float>(i)));
      }
      values[0] = kInfinity;
      const std::vector<float> expected = split(by_rows, values, 0, length, part, true);
      const DeviceNumbers<float> source(values);
      const DeviceNumbers<float> target(std::vector<float>(static_cast<size_t>(part * apart), 7));
      const LaunchOptions options{.grid = dim3(static_cast<unsigned>((part + 31) / 32), 2),
                                  .block = dim3(kCudaSplitThreads, kCudaSplitRows)};
      EXPECT_EQ(unit.launch(kCudaSplitTurnedName, options, source.data(), target.data(), 1,
                            kMostSplitWeight, static_cast<long long>(rows),
                            static_cast<long long>(length), static_cast<long long>(part),
                            static_cast<int>(parts), static_cast<long long>(length),
                            static_cast<long long>(apart)),
                cudaSuccess);
      const std::vector<float> actual = target.get();
      for (int64_t i = 0; i < part; ++i) {
        for (int64_t row = 0; row < rows + 5; ++row) {
          for (int64_t p = 0; p < parts; ++p) {
            const int64_t from = (row * 3 + (parts == 1 ? 2 : p)) * part + i;
            EXPECT_EQ(actual[static_cast<size_t>(i * apart + row * parts + p)],
                      row < rows ? expected[static_cast<size_t>(from)] : 7.0F);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace rnnc::test
