/// Expressions and constraints over integer variables, and what follows from intervals for them.
/// Arithmetic saturates: overflow is never undefined, and what overflows is taken as unknown.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
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

enum class IntegerOp : uint8_t {
  Constant,
  Variable,
  Add,
  Subtract,
  Multiply,
  CeilDivide,
  Min,
  Max
};

/// Sums, differences, products, rounded-up quotients, minima and maxima of variables and constants.
/// A value type: `units * rows * 4 + 128`. Copies share what they are made of.
class IntegerExpression {
 public:
  IntegerExpression(int64_t constant);          // NOLINT(google-explicit-constructor)
  IntegerExpression(IntegerVariable variable);  // NOLINT(google-explicit-constructor)

  /// An interval that holds all its values, given one for each variable.
  Interval over(std::span<const Interval> variables) const;

  /// One more than the greatest index of a variable in it; 0 if there is none.
  uint32_t variables() const { return node_->variables; }

  friend IntegerExpression operator+(const IntegerExpression& a, const IntegerExpression& b);
  friend IntegerExpression operator-(const IntegerExpression& a, const IntegerExpression& b);
  friend IntegerExpression operator*(const IntegerExpression& a, const IntegerExpression& b);
  friend IntegerExpression ceil_div(const IntegerExpression& a, const IntegerExpression& b);
  friend IntegerExpression min(const IntegerExpression& a, const IntegerExpression& b);
  friend IntegerExpression max(const IntegerExpression& a, const IntegerExpression& b);

 private:
  friend class IntegerTape;
  struct Node {
    IntegerOp op;
    int64_t value;  // of a constant; the index of a variable
    uint32_t variables;
    std::shared_ptr<const Node> a, b;
  };

  static IntegerExpression combine(IntegerOp op, const IntegerExpression& a,
                                   const IntegerExpression& b);
  explicit IntegerExpression(Node node) : node_(std::make_shared<const Node>(std::move(node))) {}

  bool is_constant() const { return node_->op == IntegerOp::Constant; }
  bool is(int64_t constant) const { return is_constant() && node_->value == constant; }

  std::shared_ptr<const Node> node_;
};

IntegerExpression operator+(const IntegerExpression& a, const IntegerExpression& b);
IntegerExpression operator-(const IntegerExpression& a, const IntegerExpression& b);
IntegerExpression operator*(const IntegerExpression& a, const IntegerExpression& b);
/// a / b rounded up. Where b is not positive the value is unknown.
IntegerExpression ceil_div(const IntegerExpression& a, const IntegerExpression& b);
IntegerExpression min(const IntegerExpression& a, const IntegerExpression& b);
IntegerExpression max(const IntegerExpression& a, const IntegerExpression& b);

/// Expressions as steps, operands before what uses them, equal ones once. The first steps are the
/// variables. Whoever evaluates has the steps' values, and can make anew those that have changed.
class IntegerTape {
 public:
  explicit IntegerTape(size_t variables);

  /// The step that makes the value of an expression of these variables.
  uint32_t add(const IntegerExpression& expression);

  size_t size() const { return steps_.size(); }

  /// Of all steps.
  std::vector<Interval> values(std::span<const Interval> variables) const;

  /// Makes the values of some steps, in this order, anew.
  void update(std::span<const uint32_t> steps, std::span<Interval> values) const;

  /// What some steps, the roots, are made of.
  struct Parts {
    std::vector<uint32_t> variables;
    std::vector<std::vector<uint32_t>> users;  // by variable, steps that depend on it, in order
  };
  Parts parts_of(std::span<const uint32_t> roots) const;

 private:
  struct Step {
    IntegerOp op;
    uint32_t a = 0, b = 0;  // operands: earlier steps
    int64_t value = 0;      // of a constant
    bool operator==(const Step&) const = default;
  };
  struct Hash {
    size_t operator()(const Step& step) const;
  };
  using Node = IntegerExpression::Node;

  uint32_t step_of(const Node& node);
  uint32_t number(const Step& step);

  size_t variables_;
  std::vector<Step> steps_;
  std::unordered_map<Step, uint32_t, Hash> numbers_;
  std::unordered_map<const Node*, uint32_t> known_;
  std::vector<IntegerExpression> added_;  // so that their nodes live
};

enum class Truth : uint8_t { No, Unknown, Yes };

/// A relation of two expressions. A relation with an unknown value is not met.
struct IntegerConstraint {
  enum class Relation : uint8_t { AtMost, AtLeast, Equal, MultipleOf };

  IntegerExpression value;
  Relation relation = Relation::Equal;
  IntegerExpression limit;

  /// Yes or No where that is so for all values in the intervals.
  Truth holds(std::span<const Interval> variables) const;
  static Truth holds(Relation relation, const Interval& value, const Interval& limit);

  /// By how much a value must at least change for its limit, over all in the intervals. No negative
  /// number.
  static double distance(Relation relation, const Interval& value, const Interval& limit);

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
