#include "passes/integer_expression.h"

#include <algorithm>
#include <array>

#include "ir/status.h"

namespace rnnc {
namespace {

constexpr int64_t kMin = Interval::kMin;
constexpr int64_t kMax = Interval::kMax;
constexpr size_t kMostDepth = 32;

bool is_unbounded(int64_t end) {
  return end == kMin || end == kMax;
}

int64_t saturating_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  return !__builtin_add_overflow(a, b, &sum) ? sum : a < 0 ? kMin : kMax;
}

int64_t saturating_multiply(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  int64_t product = 0;
  const bool overflows = __builtin_mul_overflow(a, b, &product);
  return !overflows && !is_unbounded(a) && !is_unbounded(b) ? product
         : (a < 0) != (b < 0)                               ? kMin
                                                            : kMax;
}

int64_t negate(int64_t a) {
  return a == kMin ? kMax : a == kMax ? kMin : -a;
}

/// An end that is unbounded in its own direction stays so whatever is added.
Interval add(const Interval& a, const Interval& b) {
  return {a.least == kMin || b.least == kMin ? kMin : saturating_add(a.least, b.least),
          a.most == kMax || b.most == kMax ? kMax : saturating_add(a.most, b.most)};
}

Interval multiply(const Interval& a, const Interval& b) {
  if (a.least >= 0 && b.least >= 0) {  // nearly always
    return {saturating_multiply(a.least, b.least), saturating_multiply(a.most, b.most)};
  }
  const std::array ends = {
      saturating_multiply(a.least, b.least), saturating_multiply(a.least, b.most),
      saturating_multiply(a.most, b.least), saturating_multiply(a.most, b.most)};
  const auto [least, most] = std::ranges::minmax(ends);
  return {least, most};
}

int64_t ceil_divide(int64_t a, int64_t b) {
  return a / b + (a % b > 0 ? 1 : 0);
}

Interval ceil_divide(const Interval& a, const Interval& b) {
  if (b.most < 1) return Interval::unknown();
  const int64_t divisor = std::max<int64_t>(b.least, 1);
  return {a.least == kMin ? kMin : ceil_divide(a.least, a.least > 0 ? b.most : divisor),
          a.most == kMax ? kMax : ceil_divide(a.most, a.most > 0 ? divisor : b.most)};
}

Truth at_most(const Interval& a, const Interval& b) {
  if (a.least > b.most) return Truth::No;
  return a.most <= b.least && a.most != kMax && b.least != kMin ? Truth::Yes : Truth::Unknown;
}

/// What is left of `a` beyond the greatest multiple of `b`, which is positive.
int64_t remainder(int64_t a, int64_t b) {
  return a % b < 0 ? a % b + b : a % b;
}

Truth multiple_of(const Interval& value, const Interval& divisor) {
  if (divisor.most < 1) return Truth::No;
  if (!divisor.is_number()) {
    return value.least > 0 && value.most < divisor.least ? Truth::No : Truth::Unknown;
  }
  const int64_t beyond = remainder(value.most, divisor.most);
  if (value.is_number()) return beyond == 0 ? Truth::Yes : Truth::No;
  if (is_unbounded(value.least) || is_unbounded(value.most)) return Truth::Unknown;
  return saturating_add(value.most, -beyond) < value.least ? Truth::No : Truth::Unknown;
}

/// By how much a is at least above b.
double excess(const Interval& a, const Interval& b) {
  return std::max(0.0, static_cast<double>(a.least) - static_cast<double>(b.most));
}

void replace_all(std::string& text, const std::string& what, int64_t number) {
  const std::string digits = fmt::format("{}", number);
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
    text.replace(at, what.size(), digits);
  }
}

}  // namespace

IntegerExpression::IntegerExpression(int64_t constant) : nodes_{{Op::Constant, constant}} {}

IntegerExpression::IntegerExpression(IntegerVariable variable)
    : nodes_{{Op::Variable, variable.index}} {}

IntegerExpression IntegerExpression::combine(Op op, const IntegerExpression& a,
                                             const IntegerExpression& b) {
  IntegerExpression result = a;
  result.nodes_.insert(result.nodes_.end(), b.nodes_.begin(), b.nodes_.end());
  result.nodes_.push_back({op, 0});
  result.depth_ = std::max(a.depth_, b.depth_ + 1);
  RNNC_CHECK(result.depth_ <= kMostDepth);
  return result;
}

Interval IntegerExpression::apply(Op op, const Interval& a, const Interval& b) {
  switch (op) {
    case Op::Add:
      return add(a, b);
    case Op::Subtract:
      return add(a, {negate(b.most), negate(b.least)});
    case Op::Multiply:
      return multiply(a, b);
    case Op::CeilDivide:
      return ceil_divide(a, b);
    case Op::Min:
      return {std::min(a.least, b.least), std::min(a.most, b.most)};
    case Op::Max:
      return {std::max(a.least, b.least), std::max(a.most, b.most)};
    case Op::Constant:
    case Op::Variable:
      break;
  }
  RNNC_CHECK(false, "an operand is no operation");
}

Interval IntegerExpression::over(std::span<const Interval> variables) const {
  std::array<Interval, kMostDepth> stack;
  size_t top = 0;
  for (const Node& node : nodes_) {
    if (node.op == Op::Constant) {
      stack[top++] = {node.value, node.value};
    } else if (node.op == Op::Variable) {
      stack[top++] = variables[static_cast<uint32_t>(node.value)];
    } else {
      --top;
      stack[top - 1] = apply(node.op, stack[top - 1], stack[top]);
    }
  }
  return stack[0];
}

std::vector<uint32_t> IntegerExpression::variables() const {
  std::vector<uint32_t> result;
  for (const Node& node : nodes_) {
    if (node.op == Op::Variable) result.push_back(static_cast<uint32_t>(node.value));
  }
  std::ranges::sort(result);
  result.erase(std::ranges::unique(result).begin(), result.end());
  return result;
}

IntegerExpression operator+(const IntegerExpression& a, const IntegerExpression& b) {
  return IntegerExpression::combine(IntegerExpression::Op::Add, a, b);
}

IntegerExpression operator-(const IntegerExpression& a, const IntegerExpression& b) {
  return IntegerExpression::combine(IntegerExpression::Op::Subtract, a, b);
}

IntegerExpression operator*(const IntegerExpression& a, const IntegerExpression& b) {
  return IntegerExpression::combine(IntegerExpression::Op::Multiply, a, b);
}

IntegerExpression ceil_div(const IntegerExpression& a, const IntegerExpression& b) {
  return IntegerExpression::combine(IntegerExpression::Op::CeilDivide, a, b);
}

IntegerExpression min(const IntegerExpression& a, const IntegerExpression& b) {
  return IntegerExpression::combine(IntegerExpression::Op::Min, a, b);
}

IntegerExpression max(const IntegerExpression& a, const IntegerExpression& b) {
  return IntegerExpression::combine(IntegerExpression::Op::Max, a, b);
}

Truth IntegerConstraint::holds(std::span<const Interval> variables) const {
  const Interval a = value.over(variables);
  const Interval b = limit.over(variables);
  switch (relation) {
    case Relation::AtMost:
      return at_most(a, b);
    case Relation::AtLeast:
      return at_most(b, a);
    case Relation::Equal:
      return std::min(at_most(a, b), at_most(b, a));
    case Relation::MultipleOf:
      return multiple_of(a, b);
  }
  return Truth::Unknown;
}

double IntegerConstraint::distance(std::span<const Interval> variables) const {
  const Interval a = value.over(variables);
  const Interval b = limit.over(variables);
  switch (relation) {
    case Relation::AtMost:
      return excess(a, b);
    case Relation::AtLeast:
      return excess(b, a);
    case Relation::Equal:
      return std::max(excess(a, b), excess(b, a));
    case Relation::MultipleOf:
      break;
  }
  if (!a.is_number() || !b.is_number() || b.least < 1) return 0;
  const int64_t beyond = remainder(a.least, b.least);
  return static_cast<double>(std::min(beyond, b.least - beyond));
}

std::string IntegerConstraint::describe(std::string text,
                                        std::span<const Interval> variables) const {
  const int64_t value_number = value.over(variables).least;
  const int64_t limit_number = limit.over(variables).least;
  const auto rounded = [](int64_t number, bool up) {
    const int64_t down = number >> 10;
    return down + (up && number % 1024 != 0 ? 1 : 0);
  };
  const bool is_above = value_number > limit_number;
  replace_all(text, "{value}", value_number);
  replace_all(text, "{limit}", limit_number);
  replace_all(text, "{value:KB}", rounded(value_number, is_above));
  replace_all(text, "{limit:KB}", rounded(limit_number, !is_above));
  return text;
}

IntegerConstraint operator<=(const IntegerExpression& value, const IntegerExpression& limit) {
  return {value, IntegerConstraint::Relation::AtMost, limit};
}

IntegerConstraint operator>=(const IntegerExpression& value, const IntegerExpression& limit) {
  return {value, IntegerConstraint::Relation::AtLeast, limit};
}

IntegerConstraint operator==(const IntegerExpression& value, const IntegerExpression& limit) {
  return {value, IntegerConstraint::Relation::Equal, limit};
}

IntegerConstraint divides(const IntegerExpression& divisor, const IntegerExpression& value) {
  return {value, IntegerConstraint::Relation::MultipleOf, divisor};
}

}  // namespace rnnc
