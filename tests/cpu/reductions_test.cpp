// Kernels that reduce over the row, and values per row.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/cpu/kernel_runner.h"

namespace rnnc::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kRows = 5;

/// Multiples of 1/64, which f32 holds exactly.
std::vector<double> random_rows(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> uniform(-256, 256);
  std::vector<double> values(count);
  for (double& value : values) value = uniform(generator) / 64.0;
  return values;
}

double reduce(Op op, const double* values, int64_t length) {
  if (op == Op::ReduceMin || op == Op::ReduceMax) {
    double best = values[0];
    for (int64_t i = 1; i < length; ++i) {
      best = evaluate(op == Op::ReduceMin ? Op::Min : Op::Max, best, values[i], 0);
    }
    return best;
  }
  double sum = 0;
  for (int64_t i = 0; i < length; ++i) sum += values[i];
  if (op == Op::Sum) return sum;
  const double mean = sum / static_cast<double>(length);
  if (op == Op::Mean) return mean;
  double squares = 0;
  for (int64_t i = 0; i < length; ++i) squares += (values[i] - mean) * (values[i] - mean);
  return squares / static_cast<double>(length);
}

void expect_near(double got, double wanted, double tolerance, const std::string& what) {
  SCOPED_TRACE(what);
  if (std::isnan(wanted)) {
    EXPECT_TRUE(std::isnan(got)) << got;
  } else if (std::isinf(wanted)) {
    EXPECT_EQ(got, wanted);
  } else {
    EXPECT_LE(std::fabs(got - wanted), tolerance * (1 + std::fabs(wanted)))
        << got << " for " << wanted;
  }
}

class Reductions : public testing::TestWithParam<CodeParam> {
 protected:
  double tolerance() const { return GetParam().dtype == DType::f32 ? 2e-6 : 1e-14; }
};

constexpr int64_t kLengths[] = {1, 3, 7, 16, 17, 33, 64, 127, 300, 1000};
constexpr Op kReductions[] = {Op::Sum, Op::Mean, Op::Var, Op::ReduceMin, Op::ReduceMax};

TEST_P(Reductions, OfEveryLength) {
  std::vector<Kernel> kernels;
  for (const int64_t length : kLengths) {
    KernelMaker maker(length, GetParam().dtype);
    const uint32_t value = maker.load(true);
    for (const Op op : kReductions) maker.store(maker.reduce(op, value), false);
    kernels.push_back(maker.kernel);
  }
  const CompiledKernels compiled(kernels, GetParam());
  for (size_t k = 0; k < kernels.size(); ++k) {
    const int64_t length = kernels[k].length;
    std::vector<double> values = random_rows(kRows * length, static_cast<uint32_t>(k));
    values[1 * length] = kNan;               // row 1: NaN first
    values[2 * length + length - 1] = kNan;  // row 2: NaN last
    values[3 * length + length / 2] = kInf;  // row 3: an infinity
    const auto got = compiled.run(k, kRows, {values});
    for (size_t r = 0; r < std::size(kReductions); ++r) {
      for (int64_t row = 0; row < kRows; ++row) {
        expect_near(got[r][row], reduce(kReductions[r], &values[row * length], length), tolerance(),
                    fmt::format("{} of row {}, length {}", info(kReductions[r]).name, row, length));
      }
    }
  }
}

/// (v - mean v) rsqrt(var v + eps) gain + shift with v = tanh(x) + z: v is kept between passes,
/// x is not, and the shift is one value per row.
TEST_P(Reductions, LayerNormOfAComputedValue) {
  std::vector<Kernel> kernels;
  for (const int64_t length : kLengths) {
    KernelMaker maker(length, GetParam().dtype);
    const uint32_t x = maker.load(true);
    const uint32_t z = maker.load(true);
    const uint32_t gain = maker.load(true);
    const uint32_t shift = maker.load(false);
    const uint32_t v = maker.scalar(Op::Add, {maker.scalar(Op::Tanh, {x}), z});
    const uint32_t centred = maker.scalar(Op::Sub, {v, maker.reduce(Op::Mean, v)});
    const uint32_t variance = maker.reduce(Op::Var, v);
    const uint32_t scale =
        maker.scalar(Op::Rsqrt, {maker.scalar(Op::Add, {variance, maker.constant(1e-5)})});
    const uint32_t normal = maker.scalar(Op::Mul, {centred, scale});
    maker.store(v, true);
    maker.store(maker.scalar(Op::Add, {maker.scalar(Op::Mul, {normal, gain}), shift}), true);
    maker.store(scale, false);
    kernels.push_back(maker.kernel);
  }
  const CompiledKernels compiled(kernels, GetParam());
  for (size_t k = 0; k < kernels.size(); ++k) {
    const int64_t length = kernels[k].length;
    const auto x = random_rows(kRows * length, 1);
    const auto z = random_rows(kRows * length, 2);
    const auto gain = random_rows(kRows * length, 3);
    const auto shift = random_rows(kRows, 4);
    const auto got = compiled.run(k, kRows, {x, z, gain, shift});
    for (int64_t row = 0; row < kRows; ++row) {
      std::vector<double> v(length);
      for (int64_t i = 0; i < length; ++i)
        v[i] = std::tanh(x[row * length + i]) + z[row * length + i];
      const double mean = reduce(Op::Mean, v.data(), length);
      const double scale = 1 / std::sqrt(reduce(Op::Var, v.data(), length) + 1e-5);
      // One element: a variance of zero makes the scale large, and rounding with it.
      const double slack = tolerance() * (length == 1 ? 1 : 10);
      expect_near(got[2][row], scale, slack, "scale");
      for (int64_t i = 0; i < length; ++i) {
        const int64_t at = row * length + i;
        expect_near(got[0][at], v[i], tolerance(), "kept value");
        expect_near(got[1][at], (v[i] - mean) * scale * gain[at] + shift[row], slack,
                    fmt::format("length {} row {} element {}", length, row, i));
      }
    }
  }
}

TEST_P(Reductions, SoftmaxTakesThreePasses) {
  std::vector<Kernel> kernels;
  for (const int64_t length : kLengths) {
    KernelMaker maker(length, GetParam().dtype);
    const uint32_t x = maker.load(true);
    const uint32_t centred = maker.scalar(Op::Sub, {x, maker.reduce(Op::ReduceMax, x)});
    const uint32_t e = maker.scalar(Op::Exp, {centred});
    maker.store(maker.scalar(Op::Div, {e, maker.reduce(Op::Sum, e)}), true);
    kernels.push_back(maker.kernel);
  }
  const CompiledKernels compiled(kernels, GetParam());
  for (size_t k = 0; k < kernels.size(); ++k) {
    const int64_t length = kernels[k].length;
    const auto x = random_rows(kRows * length, 7);
    const auto got = compiled.run(k, kRows, {x});
    for (int64_t row = 0; row < kRows; ++row) {
      double sum = 0;
      const double greatest = reduce(Op::ReduceMax, &x[row * length], length);
      for (int64_t i = 0; i < length; ++i) sum += std::exp(x[row * length + i] - greatest);
      for (int64_t i = 0; i < length; ++i) {
        expect_near(got[0][row * length + i], std::exp(x[row * length + i] - greatest) / sum,
                    tolerance(), fmt::format("length {} row {} element {}", length, row, i));
      }
    }
  }
}

TEST_P(Reductions, ValuesPerRowSpreadOverTheRow) {
  KernelMaker maker(19, GetParam().dtype);
  const uint32_t a = maker.load(false);
  const uint32_t twice = maker.scalar(Op::Add, {a, a});
  maker.store(twice, true);
  maker.store(maker.constant(0.25), true);
  maker.store(twice, false);
  maker.store(maker.constant(-3), false);
  const CompiledKernels compiled({maker.kernel}, GetParam());
  const auto got = compiled.run(0, 3, {{1, 2, kNan}});
  for (int64_t i = 0; i < 19; ++i) {
    EXPECT_EQ(got[0][i], 2);
    EXPECT_EQ(got[0][19 + i], 4);
    EXPECT_TRUE(std::isnan(got[0][38 + i]));
    EXPECT_EQ(got[1][i], 0.25);
  }
  EXPECT_EQ(got[2][1], 4);
  EXPECT_EQ(got[3], (std::vector<double>{-3, -3, -3}));
}

/// A reduction over a row in which all elements are alike, such as of a broadcast scalar.
TEST_P(Reductions, OfValuesPerRow) {
  std::vector<Kernel> kernels;
  for (const int64_t length : kLengths) {
    KernelMaker maker(length, GetParam().dtype);
    const uint32_t a = maker.load(false);
    const uint32_t twice = maker.scalar(Op::Add, {a, a});
    for (const Op op : kReductions) maker.store(maker.reduce(op, twice), false);
    const uint32_t x = maker.load(true);
    maker.store(maker.scalar(Op::Sub, {x, maker.reduce(Op::Sum, twice)}), true);
    kernels.push_back(maker.kernel);
  }
  const CompiledKernels compiled(kernels, GetParam());
  for (size_t k = 0; k < kernels.size(); ++k) {
    const int64_t length = kernels[k].length;
    const auto x = random_rows(kRows * length, 5);
    const std::vector<double> a = {0.25, -1, kNan, 3, 0.5};
    const auto got = compiled.run(k, kRows, {a, x});
    for (int64_t row = 0; row < kRows; ++row) {
      const std::vector<double> alike(length, 2 * a[row]);
      for (size_t r = 0; r < std::size(kReductions); ++r) {
        expect_near(got[r][row], reduce(kReductions[r], alike.data(), length), tolerance(),
                    fmt::format("{} of row {}, length {}", info(kReductions[r]).name, row, length));
      }
      const double sum = 2 * a[row] * static_cast<double>(length);
      expect_near(got[5][row * length], x[row * length] - sum, tolerance(), "difference");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Code, Reductions, testing::ValuesIn(code_params()), name_of);

}  // namespace
}  // namespace rnnc::test
