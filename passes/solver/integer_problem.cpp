// Why there is no solution:
// 1. Leave out one constraint after another, for good where there is still no solution. Those that
//    remain are a conflict: they cannot be met together, but any of them could be left out.
// 2. Of each of them, find the assignment that meets all others and comes closest to it. If one has
//    such an assignment, it is all that is in the way: give its reason, and those of up to two
//    others of which this is so, nearest first, joined by "or".
// 3. If none has, there are other conflicts too. Give the reason of the nearest when only the rest
//    of its conflict is met, leave it out for good, and go on from 1; reasons are joined by "and".
#include "passes/solver/integer_problem.h"

#include <algorithm>
#include <cmath>

#include "passes/solver/integer_search.h"

namespace rnnc {
namespace {

constexpr size_t kMostAlternatives = 3;

std::vector<Interval> box_of(const Solution& solution) {
  std::vector<Interval> box;
  for (const int64_t value : solution.values) box.push_back({value, value});
  return box;
}

}  // namespace

Choices range(int64_t first, int64_t last, int64_t step) {
  RNNC_CHECK(step > 0);
  Choices choices;
  while (first <= last && choices.values.size() <= Choices::kMost) {
    choices.values.push_back(first);
    if (__builtin_add_overflow(first, step, &first)) break;
  }
  return choices;
}

Choices multiples_of(int64_t number, int64_t last) {
  return range(number, last, number);
}

Choices powers_of_two(int64_t first, int64_t last) {
  Choices choices;
  for (int bit = 0; bit < 63; ++bit) {
    const int64_t power = int64_t{1} << bit;
    if (first <= power && power <= last) choices.values.push_back(power);
  }
  return choices;
}

Choices divisors_of(int64_t number) {
  RNNC_CHECK(number > 0);
  std::vector<int64_t> values;
  for (int64_t i = 1; i <= number / i; ++i) {
    if (number % i == 0) values.insert(values.end(), {i, number / i});
  }
  return one_of(std::move(values));
}

Choices one_of(std::vector<int64_t> values) {
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
  return {std::move(values)};
}

int64_t Solution::value(const IntegerExpression& expression) const {
  return expression.over(box_of(*this)).least;
}

/// Finds why a problem has no solution.
class IntegerProblem::Reasons {
 public:
  Reasons(const IntegerProblem& problem, int64_t most_work)
      : problem_(problem), work_left_(most_work), is_left_in_(problem.requirements_.size(), true) {}

  std::string find() {
    std::vector<std::string> reasons;
    for (auto in_conflict = conflict(); !in_conflict.empty(); in_conflict = conflict()) {
      std::vector<Alternative> alternatives = nearest(in_conflict, is_left_in_);
      if (!alternatives.empty()) {
        reasons.push_back(joined(alternatives));
        break;
      }
      std::vector<bool> only(is_left_in_.size(), false);
      for (size_t i = 0; i < only.size(); ++i) only[i] = is_definition(i);
      for (const size_t i : in_conflict) only[i] = true;
      alternatives = nearest(in_conflict, only);
      if (alternatives.empty()) break;
      reasons.push_back(alternatives.front().reason);
      is_left_in_[alternatives.front().requirement] = false;
    }
    if (reasons.empty()) return "no values of the variables go together";
    return fmt::format("{}", fmt::join(reasons, "; and "));
  }

 private:
  /// A constraint that would be all that is in the way.
  struct Alternative {
    size_t requirement;
    double distance;  // relative to the limit
    std::string reason;
  };

  bool is_definition(size_t requirement) const {
    return problem_.requirements_[requirement].reason.empty();
  }

  /// Those of `is_in` but `left_out`; with an eighth of the work that is left.
  SearchResult search(const std::vector<bool>& is_in, size_t left_out, Search search) {
    std::vector<const IntegerConstraint*> constraints;
    for (size_t i = 0; i < is_in.size(); ++i) {
      if (is_in[i] && i != left_out) constraints.push_back(&problem_.requirements_[i].constraint);
    }
    search.most_work = work_left_ / 8;
    SearchResult result = search_integers(problem_.choices(), constraints, search);
    work_left_ = std::max<int64_t>(work_left_ - result.work, 0);
    return result;
  }

  /// Constraints with reasons that cannot be met together, each of them needed for that as far as
  /// the work allows to tell. None if not even the definitions can be met, or all can.
  std::vector<size_t> conflict() {
    std::vector<bool> is_in = is_left_in_;
    const SearchResult all = search(is_in, is_in.size(), {});
    if (!all.best.empty() || !all.is_complete) return {};
    std::vector<size_t> needed;
    for (size_t i = 0; i < is_in.size(); ++i) {
      if (!is_in[i] || is_definition(i)) continue;
      const SearchResult others = search(is_in, i, {});
      is_in[i] = !others.best.empty() || !others.is_complete;
      if (is_in[i]) needed.push_back(i);
    }
    return needed;
  }

  /// Of each candidate, the assignment of the others of `is_in` that comes closest to it.
  std::vector<Alternative> nearest(const std::vector<size_t>& candidates,
                                   const std::vector<bool>& is_in) {
    std::vector<Alternative> result;
    for (const size_t i : candidates) {
      const auto& [constraint, reason] = problem_.requirements_[i];
      IntegerTape tape(problem_.variables_.size());
      const uint32_t of_value = tape.add(constraint.value);
      const uint32_t of_limit = tape.add(constraint.limit);
      const auto distance = [&](const Box& box) {
        const std::vector<Interval> values = tape.values(box.intervals);
        return IntegerConstraint::distance(constraint.relation, values[of_value], values[of_limit]);
      };
      const auto cost = [&](const Solution& solution) { return distance({box_of(solution)}); };
      const SearchResult closest = search(is_in, i, {.cost = cost, .lower_bound = distance});
      if (closest.best.empty()) continue;
      const std::vector<Interval> box = box_of(closest.best.front());
      const auto limit = static_cast<double>(constraint.limit.over(box).least);
      result.push_back({i, closest.best.front().cost / std::max(1.0, std::abs(limit)),
                        constraint.describe(reason, box)});
    }
    std::ranges::stable_sort(result, {}, &Alternative::distance);
    return result;
  }

  static std::string joined(const std::vector<Alternative>& alternatives) {
    std::string text = alternatives.front().reason;
    for (size_t i = 1; i < std::min(alternatives.size(), kMostAlternatives); ++i) {
      text += "; or " + alternatives[i].reason;
    }
    return text;
  }

  const IntegerProblem& problem_;
  int64_t work_left_;
  std::vector<bool> is_left_in_;
};

IntegerVariable IntegerProblem::variable(std::string name, Choices choices) {
  RNNC_CHECK(std::ranges::is_sorted(choices.values, std::ranges::less_equal()), "or not unique");
  variables_.push_back({std::move(name), std::move(choices)});
  return {static_cast<uint32_t>(variables_.size() - 1)};
}

void IntegerProblem::require(IntegerConstraint constraint, std::string reason) {
  RNNC_CHECK(std::max(constraint.value.variables(), constraint.limit.variables()) <=
             variables_.size());
  requirements_.push_back({std::move(constraint), std::move(reason)});
}

std::vector<std::vector<int64_t>> IntegerProblem::choices() const {
  std::vector<std::vector<int64_t>> result;
  for (const Variable& variable : variables_) result.push_back(variable.choices.values);
  return result;
}

Result<Ranking> IntegerProblem::solve(const Search& search) const {
  RNNC_CHECK(search.most > 0);
  RNNC_CHECK(!search.least || (!search.cost && !search.lower_bound &&
                               search.least->variables() <= variables_.size()));
  for (const auto& [name, choices] : variables_) {
    if (choices.values.empty()) return fail("no value to choose from for {}", name);
    if (choices.values.size() > Choices::kMost) {
      return fail("more than {} values to choose from for {}", Choices::kMost, name);
    }
  }
  std::vector<const IntegerConstraint*> constraints;
  for (const Requirement& requirement : requirements_) {
    constraints.push_back(&requirement.constraint);
  }
  SearchResult result = search_integers(choices(), constraints, search);
  if (!result.best.empty()) {
    return Ranking{std::move(result.best), result.is_complete, result.nodes};
  }
  if (!result.is_complete) {
    return fail("no solution found in {} steps of search, though there may be one", result.nodes);
  }
  return fail("{}", Reasons(*this, search.most_work).find());
}

std::string IntegerProblem::to_string(const Solution& solution) const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < variables_.size(); ++i) {
    parts.push_back(fmt::format("{} {}", variables_[i].name, solution.values[i]));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace rnnc
