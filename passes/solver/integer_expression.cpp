#include "passes/solver/integer_expression.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory_resource>
#include <utility>

#include "ir/base/status.h"

namespace rnnc {
namespace {

constexpr int64_t kMin = Interval::kMin;
constexpr int64_t kMax = Interval::kMax;

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

/// Of numbers that are not negative, of which kMax is unbounded too, and so stays what it is.
int64_t add_up(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kMax : sum;
}
int64_t multiply_up(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMax : product;
}

/// An end that is unbounded in its own direction stays so whatever is added.
Interval add(Interval a, Interval b) {
  if (a.least >= 0 && b.least >= 0) {  // nearly always
    return {add_up(a.least, b.least), add_up(a.most, b.most)};
  }
  return {a.least == kMin || b.least == kMin ? kMin : saturating_add(a.least, b.least),
          a.most == kMax || b.most == kMax ? kMax : saturating_add(a.most, b.most)};
}

Interval multiply(Interval a, Interval b) {
  if (a.least >= 0 && b.least >= 0) {  // nearly always
    return {multiply_up(a.least, b.least), multiply_up(a.most, b.most)};
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

Interval ceil_divide(Interval a, Interval b) {
  if (b.most < 1) return Interval::unknown();
  const int64_t divisor = std::max<int64_t>(b.least, 1);
  return {a.least == kMin ? kMin : ceil_divide(a.least, a.least > 0 ? b.most : divisor),
          a.most == kMax ? kMax : ceil_divide(a.most, a.most > 0 ? divisor : b.most)};
}

/// Most of the time of a search goes here; by value, in registers, it takes 3 % less.
Interval apply(IntegerOp op, Interval a, Interval b) {
  switch (op) {
    case IntegerOp::Add:
      return add(a, b);
    case IntegerOp::Subtract:
      return add(a, {negate(b.most), negate(b.least)});
    case IntegerOp::Multiply:
      return multiply(a, b);
    case IntegerOp::CeilDivide:
      return ceil_divide(a, b);
    case IntegerOp::Min:
      return {std::min(a.least, b.least), std::min(a.most, b.most)};
    case IntegerOp::Max:
      return {std::max(a.least, b.least), std::max(a.most, b.most)};
    case IntegerOp::Constant:
    case IntegerOp::Variable:
      break;
  }
  RNNC_CHECK(false, "an operand is no operation");
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

IntegerExpression::IntegerExpression(int64_t constant)
    : IntegerExpression(Node{IntegerOp::Constant, constant, 0, {}, {}}) {}

IntegerExpression::IntegerExpression(IntegerVariable variable)
    : IntegerExpression(Node{IntegerOp::Variable, variable.index, variable.index + 1, {}, {}}) {}

/// Leaves out what changes no interval.
IntegerExpression IntegerExpression::combine(IntegerOp op, const IntegerExpression& a,
                                             const IntegerExpression& b) {
  if (a.is_constant() && b.is_constant()) {
    const int64_t x = a.node_->value;
    const int64_t y = b.node_->value;
    const Interval value = apply(op, {x, x}, {y, y});
    if (value.is_number()) return value.least;
  }
  if ((op == IntegerOp::Subtract && b.is(0)) || (op == IntegerOp::CeilDivide && b.is(1))) return a;
  const bool adds = op == IntegerOp::Add;
  const bool multiplies = op == IntegerOp::Multiply;
  if ((adds && a.is(0)) || (multiplies && (a.is(1) || b.is(0)))) return b;
  if ((adds && b.is(0)) || (multiplies && (b.is(1) || a.is(0)))) return a;
  return IntegerExpression(Node{op, 0, std::max(a.variables(), b.variables()), a.node_, b.node_});
}

Interval IntegerExpression::over(std::span<const Interval> variables) const {
  std::array<std::byte, 1 << 14> room;  // for most expressions: `over` is called often
  std::pmr::monotonic_buffer_resource memory(room.data(), room.size());
  std::pmr::unordered_map<const Node*, Interval> known(&memory);
  const auto of = [&](const auto& self, const Node& node) -> Interval {
    if (node.op == IntegerOp::Variable) return variables[static_cast<size_t>(node.value)];
    if (node.op == IntegerOp::Constant) return {node.value, node.value};
    const auto found = known.find(&node);
    if (found != known.end()) return found->second;
    const Interval a = self(self, *node.a);
    return known[&node] = apply(node.op, a, self(self, *node.b));
  };
  return of(of, *node_);
}

IntegerExpression operator+(const IntegerExpression& a, const IntegerExpression& b) {
  return IntegerExpression::combine(IntegerOp::Add, a, b);
}

IntegerExpression operator-(const IntegerExpression& a, const IntegerExpression& b) {
  return IntegerExpression::combine(IntegerOp::Subtract, a, b);
}

IntegerExpression operator*(const IntegerExpression& a, const IntegerExpression& b) {
  return IntegerExpression::combine(IntegerOp::Multiply, a, b);
}

IntegerExpression ceil_div(const IntegerExpression& a, const IntegerExpression& b) {
  return IntegerExpression::combine(IntegerOp::CeilDivide, a, b);
}

IntegerExpression min(const IntegerExpression& a, const IntegerExpression& b) {
  return IntegerExpression::combine(IntegerOp::Min, a, b);
}

IntegerExpression max(const IntegerExpression& a, const IntegerExpression& b) {
  return IntegerExpression::combine(IntegerOp::Max, a, b);
}

IntegerTape::IntegerTape(size_t variables)
    : variables_(variables), steps_(variables, {.op = IntegerOp::Variable}) {}

size_t IntegerTape::Hash::operator()(const Step& step) const {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  uint64_t hash = static_cast<uint64_t>(step.value) * kOdd + static_cast<uint64_t>(step.op);
  hash = (hash ^ hash >> 32) * kOdd + (uint64_t{step.a} << 32 | step.b);
  return (hash ^ hash >> 32) * kOdd;
}

uint32_t IntegerTape::add(const IntegerExpression& expression) {
  added_.push_back(expression);
  return step_of(*expression.node_);
}

uint32_t IntegerTape::step_of(const Node& node) {
  if (node.op == IntegerOp::Variable) return static_cast<uint32_t>(node.value);
  if (node.op == IntegerOp::Constant) return number({.op = node.op, .value = node.value});
  const auto known = known_.find(&node);
  if (known != known_.end()) return known->second;
  uint32_t a = step_of(*node.a);
  uint32_t b = step_of(*node.b);
  const bool is_ordered = node.op == IntegerOp::Subtract || node.op == IntegerOp::CeilDivide;
  if (!is_ordered && a > b) std::swap(a, b);
  return known_[&node] = number({.op = node.op, .a = a, .b = b});
}

uint32_t IntegerTape::number(const Step& step) {
  const auto [at, fresh] = numbers_.try_emplace(step, static_cast<uint32_t>(steps_.size()));
  if (fresh) steps_.push_back(step);
  return at->second;
}

std::vector<Interval> IntegerTape::values(std::span<const Interval> variables) const {
  std::vector<Interval> values(variables.begin(), variables.end());
  values.reserve(steps_.size());
  for (size_t i = variables_; i < steps_.size(); ++i) {
    const auto& [op, a, b, value] = steps_[i];
    values.push_back(op == IntegerOp::Constant ? Interval{value, value}
                                               : apply(op, values[a], values[b]));
  }
  return values;
}

void IntegerTape::update(std::span<const uint32_t> steps, std::span<Interval> values) const {
  for (const uint32_t step : steps) {
    values[step] = apply(steps_[step].op, values[steps_[step].a], values[steps_[step].b]);
  }
}

IntegerTape::Parts IntegerTape::parts_of(std::span<const uint32_t> roots) const {
  std::vector<bool> is_part(steps_.size(), false);
  for (const uint32_t root : roots) is_part[root] = true;
  std::vector<uint32_t> parts;  // without variables and constants
  for (size_t i = steps_.size(); i-- > variables_;) {
    const auto& [op, a, b, value] = steps_[i];
    if (!is_part[i] || op == IntegerOp::Constant) continue;
    parts.push_back(static_cast<uint32_t>(i));
    is_part[a] = is_part[b] = true;
  }
  std::ranges::reverse(parts);
  Parts result;
  result.users.resize(variables_);
  for (uint32_t variable = 0; variable < variables_; ++variable) {
    if (!is_part[variable]) continue;
    result.variables.push_back(variable);
    std::vector<bool> depends(steps_.size(), false);
    depends[variable] = true;
    for (const uint32_t step : parts) {
      depends[step] = depends[steps_[step].a] || depends[steps_[step].b];
      if (depends[step]) result.users[variable].push_back(step);
    }
  }
  return result;
}

Truth IntegerConstraint::holds(std::span<const Interval> variables) const {
  return holds(relation, value.over(variables), limit.over(variables));
}

Truth IntegerConstraint::holds(Relation relation, const Interval& value, const Interval& limit) {
  switch (relation) {
    case Relation::AtMost:
      return at_most(value, limit);
    case Relation::AtLeast:
      return at_most(limit, value);
    case Relation::Equal:
      return std::min(at_most(value, limit), at_most(limit, value));
    case Relation::MultipleOf:
      return multiple_of(value, limit);
  }
  return Truth::Unknown;
}

double IntegerConstraint::distance(Relation relation, const Interval& value,
                                   const Interval& limit) {
  switch (relation) {
    case Relation::AtMost:
      return excess(value, limit);
    case Relation::AtLeast:
      return excess(limit, value);
    case Relation::Equal:
      return std::max(excess(value, limit), excess(limit, value));
    case Relation::MultipleOf:
      break;
  }
  if (!value.is_number() || !limit.is_number() || limit.least < 1) return 0;
  const int64_t beyond = remainder(value.least, limit.least);
  return static_cast<double>(std::min(beyond, limit.least - beyond));
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
