#include "ir/graph/ops.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "ir/graph/formula.h"
#include "tests/support/expect_bug.h"

namespace rnnc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Point = std::array<double, 3>;

double at(Op op, const Point& point) {
  return evaluate(op, point[0], point[1], point[2]);
}

TEST(Ops, TableIsConsistent) {
  std::set<std::string_view> names;
  for (const OpInfo& row : all_ops()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(parse_op(row.name), row.op);
    EXPECT_EQ(&info(row.op), &row);
    if (!row.scalar) continue;
    for (size_t i = 0; i < 3; ++i) {
      const bool used = i < static_cast<size_t>(row.arity);
      const std::string place = fmt::format("${}", i);
      EXPECT_EQ(row.cuda.find(place) != std::string_view::npos, used) << row.name << " " << place;
      EXPECT_EQ(!row.derivative[i].empty(), used) << row.name << " by operand " << i;
    }
  }
  EXPECT_EQ(parse_op("nosuch"), std::nullopt);
  EXPECT_EQ(parse_op(""), std::nullopt);
  EXPECT_BUG(evaluate(Op::MatMul, 1, 2, 3), "this is a bug in rnnc.*`matmul` is not a scalar op");
}

// Operands at which an op is not smooth, or not defined, are moved away from.
bool smooth(Op op, const Point& p) {
  constexpr double kMargin = 1e-2;
  const auto apart = [](double a, double b) { return std::fabs(a - b) > kMargin; };
  switch (op) {
    case Op::Log:
    case Op::Sqrt:
    case Op::Rsqrt:
      return p[0] > kMargin;
    case Op::Log1p:
      return p[0] > -1 + kMargin;
    case Op::Relu:
    case Op::Abs:
    case Op::Sign:
    case Op::Elu:
    case Op::Where:
      return apart(p[0], 0);
    case Op::Round:
      return apart(std::fabs(p[0] - std::round(p[0])), 0.5);
    case Op::Floor:
      return apart(p[0], std::floor(p[0])) && apart(p[0], std::ceil(p[0]));
    case Op::Div:
      return apart(p[1], 0);
    case Op::Mod: {
      const double quotient = p[0] / p[1];
      return std::fabs(p[1]) > 0.1 && apart(quotient, std::floor(quotient)) &&
             apart(quotient, std::ceil(quotient));
    }
    case Op::Pow:
      return p[0] > kMargin;
    case Op::Min:
    case Op::Max:
    case Op::Lt:
    case Op::Le:
    case Op::Gt:
    case Op::Ge:
    case Op::Eq:
    case Op::Ne:
      return apart(p[0], p[1]);
    case Op::Clamp:
      return apart(p[0], p[1]) && apart(p[0], p[2]) && apart(p[1], p[2]);
    default:
      return true;
  }
}

class ScalarOp : public testing::TestWithParam<Op> {};

TEST_P(ScalarOp, DerivativeMatchesCentralDifferences) {
  const Op op = GetParam();
  if (op == Op::StopGradient) return;  // its derivative is not that of its value
  std::mt19937_64 engine(1);
  int tested = 0;
  while (tested < 200) {
    Point point;
    for (double& x : point) x = static_cast<double>(engine() % 8001) / 1000 - 4;  // -4 to 4
    if (!smooth(op, point)) continue;
    ++tested;
    const double y = at(op, point);
    for (size_t i = 0; i < static_cast<size_t>(info(op).arity); ++i) {
      const double step = 1e-5;
      Point below = point;
      Point above = point;
      below[i] -= step;
      above[i] += step;
      const double expected = (at(op, above) - at(op, below)) / (above[i] - below[i]);
      const double actual = evaluate(derivative(op, i), point[0], point[1], point[2], y);
      // The difference's own error: step^2 times the third derivative, and rounding over step.
      EXPECT_NEAR(actual, expected, 1e-5 * (1 + std::fabs(expected) + std::fabs(y)))
          << "operand " << i << " at " << point[0] << ", " << point[1] << ", " << point[2];
    }
  }
}

TEST_P(ScalarOp, FollowsItsNanRule) {
  const Op op = GetParam();
  const auto arity = static_cast<size_t>(info(op).arity);
  for (size_t i = 0; i < arity; ++i) {
    for (const double other : {0.0, 1.0, -2.0, 0.5, kInf, -kInf, kNan}) {
      Point point = {other, other, other};
      point[i] = kNan;
      const double result = at(op, point);
      switch (info(op).nan_rule) {
        case NanRule::Propagate:
          EXPECT_TRUE(std::isnan(result)) << i << " beside " << other;
          break;
        case NanRule::Compare:
          EXPECT_EQ(result, op == Op::Ne ? 1 : 0) << "beside " << other;
          break;
        case NanRule::Select:
          break;  // below
      }
    }
  }
}

std::vector<Op> scalar_ops() {
  std::vector<Op> ops;
  for (const OpInfo& row : all_ops()) {
    if (row.scalar) ops.push_back(row.op);
  }
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Ops, ScalarOp, testing::ValuesIn(scalar_ops()), [](const auto& instance) {
  return std::string(rnnc::info(instance.param).name);
});

TEST(Ops, WhereLooksAtTheChosenOperandOnly) {
  EXPECT_EQ(evaluate(Op::Where, 1, 2, kNan), 2);
  EXPECT_EQ(evaluate(Op::Where, 0, kNan, 3), 3);
  EXPECT_EQ(evaluate(Op::Where, -0.0, kNan, 3), 3);
  EXPECT_EQ(evaluate(Op::Where, kNan, 2, 3), 2);
  EXPECT_TRUE(std::isnan(evaluate(Op::Where, 1, kNan, 3)));
}

TEST(Ops, ModHasTheDivisorsSign) {
  EXPECT_EQ(evaluate(Op::Mod, 7, 3, 0), 1);
  EXPECT_EQ(evaluate(Op::Mod, -7, 3, 0), 2);
  EXPECT_EQ(evaluate(Op::Mod, 7, -3, 0), -2);
  EXPECT_EQ(evaluate(Op::Mod, -7, -3, 0), -1);
  EXPECT_EQ(evaluate(Op::Mod, 5.5, 2, 0), 1.5);
  EXPECT_EQ(evaluate(Op::Mod, 6, -3, 0), 0);
  EXPECT_TRUE(std::signbit(evaluate(Op::Mod, 6, -3, 0)));
  EXPECT_EQ(evaluate(Op::Mod, 2, kInf, 0), 2);
  EXPECT_EQ(evaluate(Op::Mod, -2, kInf, 0), kInf);
  EXPECT_TRUE(std::isnan(evaluate(Op::Mod, 1, 0, 0)));
  EXPECT_TRUE(std::isnan(evaluate(Op::Mod, kInf, 1, 0)));
}

TEST(Ops, SigmoidAndSoftplusAreAccurateFarOut) {
  EXPECT_EQ(evaluate(Op::Sigmoid, 0, 0, 0), 0.5);
  EXPECT_EQ(evaluate(Op::Sigmoid, 1000, 0, 0), 1);
  EXPECT_EQ(evaluate(Op::Sigmoid, -1000, 0, 0), 0);
  EXPECT_DOUBLE_EQ(evaluate(Op::Sigmoid, -700, 0, 0), std::exp(-700));
  EXPECT_EQ(evaluate(Op::Sigmoid, kInf, 0, 0), 1);
  EXPECT_EQ(evaluate(Op::Sigmoid, -kInf, 0, 0), 0);
  EXPECT_DOUBLE_EQ(evaluate(Op::Softplus, 0, 0, 0), std::log(2));
  EXPECT_EQ(evaluate(Op::Softplus, 1000, 0, 0), 1000);
  EXPECT_DOUBLE_EQ(evaluate(Op::Softplus, -700, 0, 0), std::exp(-700));
  EXPECT_EQ(evaluate(Op::Softplus, kInf, 0, 0), kInf);
  EXPECT_EQ(evaluate(Op::Softplus, -kInf, 0, 0), 0);
}

TEST(Ops, KnownValues) {
  EXPECT_DOUBLE_EQ(evaluate(Op::Gelu, 1, 0, 0), 0.84134474606854294859);
  EXPECT_DOUBLE_EQ(evaluate(Op::Gelu, -10, 0, 0), -7.6198530241604947e-23);
  EXPECT_DOUBLE_EQ(evaluate(Op::Silu, 1, 0, 0), 0.73105857863000487926);
  EXPECT_DOUBLE_EQ(evaluate(Op::Elu, -1, 0, 0), -0.63212055882855767840);
  EXPECT_EQ(evaluate(Op::Elu, 2, 0, 0), 2);
  EXPECT_EQ(evaluate(Op::Sign, -3, 0, 0), -1);
  EXPECT_EQ(evaluate(Op::Sign, 0, 0, 0), 0);
  EXPECT_EQ(evaluate(Op::Sign, kInf, 0, 0), 1);
  EXPECT_EQ(evaluate(Op::Relu, -kInf, 0, 0), 0);
  EXPECT_EQ(evaluate(Op::Clamp, 5, -1, 1), 1);
  EXPECT_EQ(evaluate(Op::Clamp, -5, -1, 1), -1);
  EXPECT_EQ(evaluate(Op::Clamp, 0, 2, 1), 1);  // an empty range gives its upper end, as in NumPy
  EXPECT_EQ(evaluate(Op::Rsqrt, 4, 0, 0), 0.5);
  EXPECT_EQ(evaluate(Op::Rsqrt, 0, 0, 0), kInf);
  EXPECT_EQ(evaluate(Op::Pow, -2, 3, 0), -8);
  EXPECT_EQ(evaluate(Op::Div, 1, 0, 0), kInf);
}

}  // namespace
}  // namespace rnnc
