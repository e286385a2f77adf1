#include "ir/base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace rnnc {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Format {
  int exponent_bits;
  int mantissa_bits;
  uint16_t (*from)(float);
  float (*to)(uint16_t);
};

constexpr Format kBf16 = {8, 7, bf16_from_float, float_from_bf16};
constexpr Format kF16 = {5, 10, f16_from_float, float_from_f16};

/// The value of a 16-bit pattern, by the definition of IEEE 754.
double decode(const Format& format, uint16_t bits) {
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int greatest = (1 << format.exponent_bits) - 1;
  const int exponent = (bits >> format.mantissa_bits) & greatest;
  const int bias = greatest / 2;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == greatest) return mantissa != 0 ? kNan : sign * kInf;
  const int whole = exponent == 0 ? mantissa : mantissa + (1 << format.mantissa_bits);
  return sign * std::ldexp(whole, std::max(exponent, 1) - bias - format.mantissa_bits);
}

bool is_nan(const Format& format, uint16_t bits) {
  return std::isnan(decode(format, bits));
}

class SixteenBits : public testing::TestWithParam<Format> {};

TEST_P(SixteenBits, EveryPatternDecodesAndReturns) {
  const Format& format = GetParam();
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<uint16_t>(bits);
    const float value = format.to(pattern);
    if (is_nan(format, pattern)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(is_nan(format, format.from(value))) << bits;
      EXPECT_EQ(format.from(value) & 0x8000, pattern & 0x8000) << bits;
    } else {
      EXPECT_EQ(value, static_cast<float>(decode(format, pattern))) << bits;
      EXPECT_EQ(format.from(value), pattern);
    }
  }
}

// Between neighbours the midpoint goes to the even one; a float either side of it to the nearer.
TEST_P(SixteenBits, RoundsToNearestEven) {
  const Format& format = GetParam();
  const uint32_t infinity = ((1U << format.exponent_bits) - 1) << format.mantissa_bits;
  for (uint32_t low = 0; low < infinity; ++low) {
    const uint32_t high = low + 1;
    const uint32_t even = low % 2 == 0 ? low : high;
    const double below = decode(format, static_cast<uint16_t>(low));
    // The first number that does not exist any more stands at infinity's pattern.
    const double above = high == infinity ? std::ldexp(1, (1 << (format.exponent_bits - 1)))
                                          : decode(format, static_cast<uint16_t>(high));
    const auto middle = static_cast<float>((below + above) / 2);
    ASSERT_EQ(middle, (below + above) / 2);
    EXPECT_EQ(format.from(middle), even) << low;
    EXPECT_EQ(format.from(std::nextafter(middle, 0.0F)), low) << low;
    EXPECT_EQ(format.from(std::nextafter(middle, kInf)), high) << low;
    EXPECT_EQ(format.from(-middle), even | 0x8000U) << low;
  }
}

TEST_P(SixteenBits, Specials) {
  const Format& format = GetParam();
  const auto infinity =
      static_cast<uint16_t>(((1U << format.exponent_bits) - 1) << format.mantissa_bits);
  EXPECT_EQ(format.from(kInf), infinity);
  EXPECT_EQ(format.from(-kInf), infinity | 0x8000);
  EXPECT_EQ(format.from(std::numeric_limits<float>::max()), infinity);
  EXPECT_EQ(format.from(0.0F), 0);
  EXPECT_EQ(format.from(-0.0F), 0x8000);
  // NaNs whose payload lies in the bits that are cut off, signalling ones among them.
  for (const uint32_t bits : {0x7f800001U, 0xff800001U, 0x7fc00000U, 0x7fffffffU, 0xffffffffU}) {
    EXPECT_TRUE(is_nan(format, format.from(std::bit_cast<float>(bits)))) << bits;
  }
}

INSTANTIATE_TEST_SUITE_P(DType, SixteenBits, testing::Values(kBf16, kF16),
                         [](const auto& instance) {
                           return instance.param.mantissa_bits == 7 ? "bf16" : "f16";
                         });

TEST(DType, Names) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
  }
  EXPECT_EQ(to_string(DType::bf16), "bf16");
  EXPECT_EQ(parse_dtype("f8"), std::nullopt);
  EXPECT_EQ(parse_dtype(""), std::nullopt);
  EXPECT_EQ(size_of(DType::f64), 8U);
  EXPECT_EQ(size_of(DType::f32), 4U);
  EXPECT_EQ(size_of(DType::bf16), 2U);
  EXPECT_EQ(size_of(DType::f16), 2U);
}

TEST(DType, ConvertsArraysBetweenAllTypes) {
  const std::vector<double> values = {0, -0.0, 1, -2.5, 0.09375, 96, kInf, -kInf, kNan};
  const std::vector<DType> dtypes = {DType::f64, DType::f32, DType::bf16, DType::f16};
  for (const DType from : dtypes) {
    for (const DType to : dtypes) {
      std::vector<std::byte> source(values.size() * size_of(from));
      std::vector<std::byte> target(values.size() * size_of(to));
      std::vector<double> result(values.size());
      convert(values.data(), DType::f64, source.data(), from, values.size());
      convert(source.data(), from, target.data(), to, values.size());
      convert(target.data(), to, result.data(), DType::f64, values.size());
      for (size_t i = 0; i + 1 < values.size(); ++i) {
        EXPECT_EQ(result[i], values[i]) << to_string(from) << " to " << to_string(to);
        EXPECT_EQ(std::signbit(result[i]), std::signbit(values[i]));
      }
      EXPECT_TRUE(std::isnan(result.back())) << to_string(from) << " to " << to_string(to);
    }
  }
}

TEST(DType, ConvertRoundsDoublesThroughFloat) {
  // Just above the midpoint of 1 and 1 + 2^-7, by less than a float can hold.
  const double value = 1 + 0x1p-8 + 0x1p-40;
  uint16_t bits = 0;
  convert(&value, DType::f64, &bits, DType::bf16, 1);
  EXPECT_EQ(float_from_bf16(bits), 1.0F);
  const double large = 1e300;
  float single = 0;
  convert(&large, DType::f64, &single, DType::f32, 1);
  EXPECT_EQ(single, kInf);
}

TEST(DType, ConvertTakesUnalignedAndEmptyArrays) {
  std::vector<std::byte> source(1 + 3 * sizeof(float));
  const std::vector<float> values = {1, 2, 3};
  convert(values.data(), DType::f32, source.data() + 1, DType::f32, 3);
  std::vector<double> target(3);
  convert(source.data() + 1, DType::f32, target.data(), DType::f64, 3);
  EXPECT_EQ(target, (std::vector<double>{1, 2, 3}));
  convert(nullptr, DType::f32, nullptr, DType::f32, 0);
}

}  // namespace
}  // namespace rnnc
