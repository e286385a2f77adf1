#include "ir/graph/ops.h"

#include <algorithm>
#include <cmath>

#include "ir/base/status.h"

namespace rnnc {
namespace {

/// What the rows of ops.def mean where <cmath> has no function of that meaning.
namespace scalar {

// Both branches keep exp's argument at or below zero, so nothing overflows and small results keep
// their relative accuracy.
double sigmoid(double a) {
  if (a >= 0) return 1.0 / (1.0 + std::exp(-a));
  const double e = std::exp(a);
  return e / (1.0 + e);
}

double softplus(double a) {
  return (a > 0 ? a : 0.0) + std::log1p(std::exp(-std::fabs(a)));
}

// erfc keeps the relative accuracy of the left tail, where 1 + erf would cancel.
double gelu(double a) {
  return 0.5 * a * std::erfc(-a * 0.70710678118654752440);
}

double elu(double a) {
  return a > 0 ? a : std::expm1(a);
}

double sign(double a) {
  if (std::isnan(a)) return a;
  return static_cast<double>(a > 0) - static_cast<double>(a < 0);
}

double minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  return b < a ? b : a;
}

double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  return b > a ? b : a;
}

// C's pow(1, NaN) and pow(NaN, 0) are 1; here NaN passes through.
double power(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  return std::pow(a, b);
}

// The remainder with the divisor's sign.
double modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) == (b < 0) || std::isnan(rest) ? rest : rest + b;
}

}  // namespace scalar

constexpr OpInfo leaf(Op op, std::string_view name) {
  return {op, name, 0, false, false, NanRule::Propagate, "", 0, 0, {}};
}

constexpr OpInfo structure(Op op, std::string_view name, int arity) {
  return {op, name, arity, false, false, NanRule::Propagate, "", 0, 0, {}};
}

constexpr OpInfo reduction(Op op, std::string_view name, int flops = 1) {
  return {op, name, 1, false, true, NanRule::Propagate, "", flops, 0, {}};
}

// In the order of `Op`.
constexpr auto kOps = std::to_array<OpInfo>({
    leaf(Op::Input, "input"),
    leaf(Op::Param, "param"),
    leaf(Op::State, "state"),
    leaf(Op::Constant, "const"),
    leaf(Op::Vector, "vector"),
    leaf(Op::Range, "range"),
    leaf(Op::Eye, "eye"),
    leaf(Op::Valid, "valid"),
    leaf(Op::Reset, "reset"),
    leaf(Op::Final, "final"),
    structure(Op::Broadcast, "broadcast", 1),
    structure(Op::Slice, "slice", 1),
    structure(Op::Index, "index", 1),
    structure(Op::Concat, "concat", kAnyArity),
    structure(Op::Stack, "stack", kAnyArity),
    structure(Op::Transpose, "transpose", 1),
    structure(Op::Reverse, "reverse", 1),
    structure(Op::Earlier, "earlier", 1),
    structure(Op::Rows, "rows", 2),
    structure(Op::Real, "real", 1),
    structure(Op::Total, "total", kAnyArity),
    {Op::MatMul, "matmul", 2, false, false, NanRule::Propagate, "", 0, 0, {}},
    reduction(Op::Sum, "sum"),
    reduction(Op::Mean, "mean"),
    reduction(Op::Var, "var", 4),  // the mean, and the square of what is apart from it
    reduction(Op::ReduceMin, "reduce_min"),
    reduction(Op::ReduceMax, "reduce_max"),
#define RNNC_SCALAR_OP(op, name, arity, nan_rule, cuda, flops, specials, meaning, da, db, dc) \
  OpInfo{Op::op, name, arity, true, false, NanRule::nan_rule, cuda, flops, specials, {da, db, dc}},
#include "ir/graph/ops.def"
#undef RNNC_SCALAR_OP
});

constexpr bool in_order() {
  for (size_t i = 0; i < kOps.size(); ++i) {
    if (static_cast<size_t>(kOps[i].op) != i) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

const OpInfo& info(Op op) {
  return kOps[static_cast<size_t>(op)];
}

std::span<const OpInfo> all_ops() {
  return kOps;
}

std::optional<Op> parse_op(std::string_view name) {
  const auto found = std::ranges::find(kOps, name, &OpInfo::name);
  if (found == kOps.end()) return std::nullopt;
  return found->op;
}

double evaluate(Op op, [[maybe_unused]] double a, [[maybe_unused]] double b,
                [[maybe_unused]] double c) {
  switch (op) {
#define RNNC_SCALAR_OP(op, name, arity, nan_rule, cuda, flops, specials, meaning, ...) \
  case Op::op:                                                                         \
    return meaning;
#include "ir/graph/ops.def"
#undef RNNC_SCALAR_OP
    default:
      RNNC_CHECK(false, "`{}` is not a scalar op", info(op).name);
  }
}

}  // namespace rnnc
