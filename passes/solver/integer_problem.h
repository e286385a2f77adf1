/// A small solver for integer constraints: which tiles fit a device, and which of them is best.
///
///     IntegerProblem problem;
///     const auto units = problem.variable("units", powers_of_two(1, 64));
///     const auto rows = problem.variable("rows", multiples_of(8, 64));
///     problem.require(units * rows * 4 <= room, "sums need {value:KB} KB per SM, has {limit:KB}");
///     problem.require(divides(units, hidden), "{limit} units do not divide {value}");
///     const Result<Ranking> ranking = problem.solve({.least = units * 3 + rows, .most = 5});
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/base/status.h"
#include "passes/solver/integer_expression.h"

namespace rnnc {

/// The values that a variable may take: sorted, each once, at most `kMost` of them. A list of more
/// ends after one too many, which `solve` then reports.
struct Choices {
  static constexpr size_t kMost = 4096;
  std::vector<int64_t> values;
};

Choices range(int64_t first, int64_t last, int64_t step = 1);
Choices multiples_of(int64_t number, int64_t last);  // from `number` on
Choices powers_of_two(int64_t first, int64_t last);  // those between
Choices divisors_of(int64_t number);                 // of a positive number
Choices one_of(std::vector<int64_t> values);

/// A value for each variable, so that all constraints are met.
struct Solution {
  std::vector<int64_t> values;
  double cost = 0;

  int64_t operator[](IntegerVariable variable) const { return values[variable.index]; }
  int64_t value(const IntegerExpression& expression) const;
};

/// What a cost is bounded over: an interval for each variable.
struct Box {
  std::span<const Interval> intervals;

  Interval operator[](IntegerVariable variable) const { return intervals[variable.index]; }
  Interval value(const IntegerExpression& expression) const { return expression.over(intervals); }
};

/// What is asked of a problem.
struct Search {
  /// What is to be least: the cost of a solution, and a bound of costs by itself. Narrows what is
  /// searched far more than `cost` and `lower_bound` would, in whose place it is.
  std::optional<IntegerExpression> least = {};
  /// What a solution costs; those that cost less are better, NaN is worst. Without a cost any
  /// solution is as good as another, and the first that are found will do.
  std::function<double(const Solution&)> cost = {};
  /// No more than the cost of any solution in a box. Where given, what looks best is tried first
  /// and what cannot be among the best is not tried.
  std::function<double(const Box&)> lower_bound = {};
  size_t most = 1;
  /// Where the search gives up, in steps of evaluating expressions, some 5 ns each; a call of the
  /// cost or the bound counts as 100. The reasons why there is no solution may take as many again.
  int64_t most_work = 2'000'000;
};

struct Ranking {
  std::vector<Solution> best;  // at least one, by cost, those that cost the same as they were found
  bool is_complete = true;     // false: the search gave up, and better ones may exist
  int64_t nodes = 0;           // of the search tree
};

/// Variables, and what is required of them. The same problem gives the same answer every time.
class IntegerProblem {
 public:
  IntegerVariable variable(std::string name, Choices choices);
  size_t variables() const { return variables_.size(); }

  /// `reason` says what is wrong where this is not met, as IntegerConstraint::describe reads it.
  /// Without one the constraint is part of what the variables mean, and never the reason.
  void require(IntegerConstraint constraint, std::string reason = {});

  /// The best solutions; or the reasons why there is none, in one line: each constraint that is in
  /// the way with the numbers of the assignment that comes closest to it and meets the others.
  Result<Ranking> solve(const Search& search = {}) const;

  /// "units 8, rows 16"
  std::string to_string(const Solution& solution) const;

 private:
  struct Variable {
    std::string name;
    Choices choices;
  };
  struct Requirement {
    IntegerConstraint constraint;
    std::string reason;
  };
  class Reasons;

  std::vector<std::vector<int64_t>> choices() const;

  std::vector<Variable> variables_;
  std::vector<Requirement> requirements_;
};

}  // namespace rnnc
