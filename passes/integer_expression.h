/// Expressions and constraints over integer variables, and what follows from intervals for them.
/// Arithmetic saturates: overflow is never undefined, and what overflows is taken as unknown.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace rnnc {

/// A variable of an IntegerProblem, which makes them.
struct IntegerVariable {
  uint32_t index = 0;
};

/// All numbers from `least` to `most`. An end at a limit of 64 bits stands for that number and all
/// beyond it.
struct Interval {
  static constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

  int64_t least;  // no default: making many at once must cost nothing
  int64_t most;

  static constexpr Interval unknown() { return {kMin, kMax}; }

  /// Whether it is one number, and that is known.
  bool is_number() const { return least == most && least != kMin && most != kMax; }
  bool operator==(const Interval&) const = default;
};

/// Sums, differences, products, rounded-up quotients, minima and maxima of variables and constants.
/// A value type: `units * rows * 4 + 128`.
class IntegerExpression {
 public:
  IntegerExpression(int64_t constant);          // NOLINT(google-explicit-constructor)
  IntegerExpression(IntegerVariable variable);  // NOLINT(google-explicit-constructor)

  /// An interval that holds all its values, given one for each variable.
  Interval over(std::span<const Interval> variables) const;

  /// The variables in it, each once, in order.
  std::vector<uint32_t> variables() const;

  /// How many steps `over` takes.
  size_t size() const { return nodes_.size(); }

  friend IntegerExpression operator+(const IntegerExpression& a, const IntegerExpression& b);
  friend IntegerExpression operator-(const IntegerExpression& a, const IntegerExpression& b);
  friend IntegerExpression operator*(const IntegerExpression& a, const IntegerExpression& b);
  friend IntegerExpression ceil_div(const IntegerExpression& a, const IntegerExpression& b);
  friend IntegerExpression min(const IntegerExpression& a, const IntegerExpression& b);
  friend IntegerExpression max(const IntegerExpression& a, const IntegerExpression& b);

 private:
  enum class Op : uint8_t { Constant, Variable, Add, Subtract, Multiply, CeilDivide, Min, Max };
  struct Node {
    Op op;
    int64_t value;  // of a constant; the index of a variable
  };

  static Interval apply(Op op, const Interval& a, const Interval& b);
  static IntegerExpression combine(Op op, const IntegerExpression& a, const IntegerExpression& b);

  std::vector<Node> nodes_;  // operands before what uses them
  size_t depth_ = 1;         // most operands that wait at once
};

IntegerExpression operator+(const IntegerExpression& a, const IntegerExpression& b);
IntegerExpression operator-(const IntegerExpression& a, const IntegerExpression& b);
IntegerExpression operator*(const IntegerExpression& a, const IntegerExpression& b);
/// a / b rounded up. Where b is not positive the value is unknown.
IntegerExpression ceil_div(const IntegerExpression& a, const IntegerExpression& b);
IntegerExpression min(const IntegerExpression& a, const IntegerExpression& b);
IntegerExpression max(const IntegerExpression& a, const IntegerExpression& b);

enum class Truth : uint8_t { No, Unknown, Yes };

/// A relation of two expressions. A relation with an unknown value is not met.
struct IntegerConstraint {
  enum class Relation : uint8_t { AtMost, AtLeast, Equal, MultipleOf };

  IntegerExpression value;
  Relation relation = Relation::Equal;
  IntegerExpression limit;

  /// Yes or No where that is so for all values in the intervals.
  Truth holds(std::span<const Interval> variables) const;

  /// By how much the value must at least change for the limit, over all values in the intervals.
  /// No negative number.
  double distance(std::span<const Interval> variables) const;

  /// `text` with numbers for {value} and {limit}, or in units of 1024 for {value:KB} and
  /// {limit:KB}, which are rounded apart so that they differ where the numbers do.
  std::string describe(std::string text, std::span<const Interval> variables) const;
};

IntegerConstraint operator<=(const IntegerExpression& value, const IntegerExpression& limit);
IntegerConstraint operator>=(const IntegerExpression& value, const IntegerExpression& limit);
IntegerConstraint operator==(const IntegerExpression& value, const IntegerExpression& limit);
/// `value` is a multiple of `divisor`, which is positive.
IntegerConstraint divides(const IntegerExpression& divisor, const IntegerExpression& value);

}  // namespace rnnc
