// Every scalar op, compiled, against its meaning in ir/graph/ops.h.
#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/cpu/kernel_runner.h"

namespace rnnc::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double rounded(double value, DType dtype) {
  return dtype == DType::f32 ? static_cast<double>(static_cast<float>(value)) : value;
}

/// The distance of neighbouring numbers of the type near `value`.
double spacing(double value, DType dtype) {
  const int digits = dtype == DType::f32 ? 24 : 53;
  const int least = dtype == DType::f32 ? -149 : -1074;
  if (value == 0 || !std::isfinite(value)) return std::ldexp(1.0, least);
  return std::ldexp(1.0, std::max(std::ilogb(value) + 1 - digits, least));
}

/// Whether `got` is `wanted` but for an error of at most `allowed`.
bool near(double got, double wanted, DType dtype, double allowed) {
  if (std::isnan(wanted)) return std::isnan(got);
  if (got == rounded(wanted, dtype)) return true;
  const double largest =
      dtype == DType::f32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  if (std::isinf(got) || std::isinf(rounded(wanted, dtype))) {
    // Rounding may step over the largest number.
    return std::fabs(std::isinf(got) ? wanted : got) > largest * (1 - 1e-6) &&
           std::signbit(got) == std::signbit(wanted);
  }
  return std::fabs(got - wanted) <= allowed;
}

/// How far each op may be off, in units in the last place.
double allowed_units(Op op, DType dtype) {
  switch (op) {
    case Op::Rsqrt:
    case Op::Sigmoid:
    case Op::Tanh:
    case Op::Exp:
    case Op::Expm1:
    case Op::Elu:
    case Op::Silu:
    case Op::Softplus:
    case Op::Log:
    case Op::Log1p:
    case Op::Erf:
    case Op::Sin:
    case Op::Cos:
    case Op::Pow:
      return 4;
    case Op::Gelu:
      // The tail's erfc multiplies the rounding of its argument by 2 z^2.
      return dtype == DType::f32 ? 512 : 2048;
    default:
      return 0.5;
  }
}

std::vector<double> interesting_values(DType dtype) {
  const bool single = dtype == DType::f32;
  const double tiny = single ? std::numeric_limits<float>::min() : 2.2250738585072014e-308;
  const double subnormal =
      single ? std::numeric_limits<float>::denorm_min() : std::numeric_limits<double>::denorm_min();
  const double huge =
      single ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  std::vector<double> values = {
      0.0,     1.0,    0.5,  2.0,  3.0,  0.1,  1e-3,   1e-5, 0.25, 20.0,      10.0,          88.0,
      88.7228, 103.97, 7.25, 30.0, 36.5, 1e4,  1e6,    tiny, huge, subnormal, 3 * subnormal, 1e-8,
      0.34657, 0.3466, 1.5,  2.5,  kInf, 87.4, -0.999, 0.75, 17.5, 100.0};
  if (!single) values.insert(values.end(), {709.7, 710.0, 745.0, 746.0, 708.5, 1e100, 1e-300});
  const size_t positive = values.size();
  for (size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  values.push_back(kNan);
  for (double& value : values) value = rounded(value, dtype);
  return values;
}

std::vector<double> random_operands(size_t count, DType dtype, double scale, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<double> values(count);
  for (double& value : values) value = rounded(normal(generator), dtype);
  return values;
}

/// Operand lists of equal length: all values for one operand, all pairs for two, pairs with several
/// third operands for three; then random ones.
std::vector<std::vector<double>> operand_lists(int arity, DType dtype) {
  const std::vector<double> values = interesting_values(dtype);
  std::vector<std::vector<double>> lists(arity);
  const size_t n = values.size();
  const size_t combinations = arity == 1 ? n : n * n;
  for (size_t i = 0; i < combinations; ++i) {
    lists[0].push_back(values[i % n]);
    if (arity > 1) lists[1].push_back(values[i / n]);
    if (arity > 2) lists[2].push_back(values[(i * 7 + i / n) % n]);
  }
  uint32_t seed = 1;
  for (const double scale : {0.1, 1.0, 5.0, 40.0}) {
    for (auto& list : lists) {
      const auto more = random_operands(3000, dtype, scale, seed++);
      list.insert(list.end(), more.begin(), more.end());
    }
  }
  return lists;
}

void check_op(const CompiledKernels& kernels, size_t index, Op op, DType dtype) {
  const int64_t length = kernels.kernel(index).length;
  std::vector<std::vector<double>> lists = operand_lists(info(op).arity, dtype);
  const auto rows = static_cast<int64_t>(lists[0].size() + length - 1) / length;
  for (auto& list : lists) list.resize(rows * length, 1.0);
  const std::vector<double> got = kernels.run(index, rows, lists)[0];
  int reported = 0;
  for (size_t i = 0; i < got.size() && reported < 5; ++i) {
    const double a = lists[0][i];
    const double b = lists.size() > 1 ? lists[1][i] : 0;
    const double c = lists.size() > 2 ? lists[2][i] : 0;
    const double wanted = evaluate(op, a, b, c);
    double allowed = allowed_units(op, dtype) * spacing(wanted, dtype);
    // A subnormal sigmoid has few bits, and its rounding is multiplied by a.
    if (op == Op::Silu && std::isfinite(a)) allowed += std::fabs(a) * spacing(0, dtype);
    if (near(got[i], wanted, dtype, allowed)) continue;
    ++reported;
    ADD_FAILURE() << fmt::format(
        "{} in {}, length {}: operands {} {} {} gave {:.17g}, expected {:.17g} ({} units off)",
        info(op).name, to_string(dtype), length, a, b, c, got[i], wanted,
        std::fabs(got[i] - wanted) / spacing(wanted, dtype));
  }
}

class ScalarOps : public testing::TestWithParam<CodeParam> {};

TEST_P(ScalarOps, MatchTheirMeaningAtEveryLength) {
  const DType dtype = GetParam().dtype;
  std::vector<Kernel> kernels;
  std::vector<Op> ops;
  for (const OpInfo& op : all_ops()) {
    if (!op.scalar) continue;
    for (const int64_t length : {1, 3, 7, 16, 17, 33, 300, 1000}) {
      KernelMaker maker(length, dtype);
      std::vector<uint32_t> operands(op.arity);
      for (uint32_t& operand : operands) operand = maker.load(true);
      maker.store(maker.scalar(op.op, operands), true);
      kernels.push_back(maker.kernel);
      ops.push_back(op.op);
    }
  }
  const CompiledKernels compiled(kernels, GetParam());
  for (size_t i = 0; i < ops.size(); ++i) check_op(compiled, i, ops[i], dtype);
}

TEST_P(ScalarOps, TanhHasItsOperandsSignAndIsAtMostOne) {
  constexpr int64_t kLength = 64;
  const DType dtype = GetParam().dtype;
  KernelMaker maker(kLength, dtype);
  maker.store(maker.scalar(Op::Tanh, {maker.load(true)}), true);
  const CompiledKernels compiled({maker.kernel}, GetParam());
  std::vector<double> values = {0.0, -0.0};
  for (int i = 1; i <= 20000; ++i) {
    values.push_back(rounded(i * 1.1e-3, dtype));
    values.push_back(-values.back());
  }
  const auto rows = static_cast<int64_t>(values.size() + kLength - 1) / kLength;
  values.resize(rows * kLength, 0.0);
  const std::vector<double> got = compiled.run(0, rows, {values})[0];
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LE(std::fabs(got[i]), 1) << values[i];
    EXPECT_EQ(std::signbit(got[i]), std::signbit(values[i])) << values[i];
  }
}

/// Just below, at and just above whole quotients, up to such that have no more digits than a number.
TEST_P(ScalarOps, ModIsExactAroundWholeQuotients) {
  constexpr int64_t kLength = 64;
  const DType dtype = GetParam().dtype;
  KernelMaker maker(kLength, dtype);
  const uint32_t a = maker.load(true);
  const uint32_t b = maker.load(true);
  maker.store(maker.scalar(Op::Mod, {a, b}), true);
  const CompiledKernels compiled({maker.kernel}, GetParam());
  std::vector<double> left, right;
  const auto next = [dtype](double value, double to) {
    return dtype == DType::f32 ? std::nextafter(static_cast<float>(value), static_cast<float>(to))
                               : std::nextafter(value, to);
  };
  const std::vector<double> divisors = random_operands(256, dtype, 3, 1);
  for (int power = 0; power < (dtype == DType::f32 ? 26 : 56); ++power) {
    for (size_t i = 0; i < divisors.size(); ++i) {
      const double quotient = std::floor(std::ldexp(1 + static_cast<double>(i) / 256, power));
      const double product = rounded(quotient * divisors[i], dtype);
      for (const double sign : {1.0, -1.0}) {
        for (const double value : {product, next(product, 0), next(product, 2 * product)}) {
          left.push_back(sign * value);
          right.push_back(divisors[i]);
        }
      }
    }
  }
  ASSERT_EQ(std::ssize(left) % kLength, 0);
  const std::vector<double> got = compiled.run(0, std::ssize(left) / kLength, {left, right})[0];
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i], rounded(evaluate(Op::Mod, left[i], right[i], 0), dtype))
        << left[i] << ", " << right[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Code, ScalarOps, testing::ValuesIn(code_params()), name_of);

}  // namespace
}  // namespace rnnc::test
