// 1. Narrow: a value goes where some constraint cannot hold with it, given the intervals of the
//    other variables. Only the least and greatest values of a variable are tried, from the outside
//    in, but all of them where it is the last open variable of the constraint; so when every
//    variable has one value left, all constraints are met. Repeat until nothing changes.
// 2. Branch: give each value in turn to the variable with the fewest left, narrow, and go on with
//    the others; values in order of the lower bound if there is one, else from the least. A box
//    whose lower bound is no better than the worst of the solutions kept is left out.
// 3. If half of the work is done and the tree is not: start again with the other half, of which all
//    values of a variable get equal parts, so that no corner of the tree takes it all. Each value
//    that is tried goes down to the first leaf, whatever its part.
#include "passes/integer_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rnnc {
namespace {

constexpr int64_t kWorkOfCost = 100;  // a call of a cost or a bound

class IntegerSearch {
 public:
  IntegerSearch(std::vector<std::vector<int64_t>> choices,
                std::span<const IntegerConstraint* const> constraints, const Search& search)
      : search_(search), constraints_of_(choices.size()), levels_(choices.size() + 1) {
    Level& root = levels_[0];
    for (const auto& values : choices) root.box.push_back({values.front(), values.back()});
    root.values = std::move(choices);
    for (const IntegerConstraint* constraint : constraints) add(*constraint);
  }

  SearchResult run() {
    if (!narrow(levels_[0])) return std::move(result_);
    visit(0, search_.most_work / 2);
    if (!result_.is_complete) {
      is_even_ = true;
      result_.is_complete = true;
      visit(0, search_.most_work);
    }
    return std::move(result_);
  }

 private:
  struct Propagator {
    const IntegerConstraint* constraint;
    std::vector<uint32_t> variables;
    int64_t work;  // of asking whether it holds
  };
  /// What is left of each variable after as many branches.
  struct Level {
    std::vector<std::vector<int64_t>> values;
    std::vector<Interval> box;

    bool is_open(uint32_t variable) const { return values[variable].size() > 1; }
    void set(uint32_t variable, int64_t value) {
      values[variable] = {value};
      box[variable] = {value, value};
    }
  };
  struct Branch {
    double bound;
    int64_t value;
  };

  void add(const IntegerConstraint& constraint) {
    std::vector<uint32_t> variables = (constraint.value + constraint.limit).variables();
    const auto index = static_cast<uint32_t>(propagators_.size());
    for (const uint32_t variable : variables) constraints_of_[variable].push_back(index);
    const auto work = static_cast<int64_t>(constraint.value.size() + constraint.limit.size());
    propagators_.push_back({&constraint, std::move(variables), work});
    is_queued_.push_back(true);
    queue_.push_back(index);
  }

  void queue_constraints_of(uint32_t variable) {
    for (const uint32_t index : constraints_of_[variable]) {
      if (!is_queued_[index]) queue_.push_back(index);
      is_queued_[index] = true;
    }
  }

  /// Narrows by the queued constraints, and those of each variable that is narrowed; false if one
  /// of them cannot be met, or there is far too much work.
  bool narrow(Level& level) {
    bool can_hold = true;
    for (size_t next = 0; next < queue_.size(); ++next) {
      is_queued_[queue_[next]] = false;
      if (result_.work / 2 >= search_.most_work) result_.is_complete = can_hold = false;
      can_hold = can_hold && narrow_by(propagators_[queue_[next]], level);
    }
    queue_.clear();
    return can_hold;
  }

  Truth holds(const Propagator& propagator, const Level& level) {
    result_.work += propagator.work;
    return propagator.constraint->holds(level.box);
  }

  bool narrow_by(const Propagator& propagator, Level& level) {
    const Truth truth = holds(propagator, level);
    if (truth != Truth::Unknown) return truth == Truth::Yes;
    const auto open = std::ranges::count_if(
        propagator.variables, [&](uint32_t variable) { return level.is_open(variable); });
    if (open == 0) return false;  // a number that overflows
    return std::ranges::all_of(propagator.variables, [&](uint32_t variable) {
      return !level.is_open(variable) || narrow_variable(propagator, variable, open == 1, level);
    });
  }

  bool narrow_variable(const Propagator& propagator, uint32_t variable, bool is_last,
                       Level& level) {
    std::vector<int64_t>& values = level.values[variable];
    const size_t before = values.size();
    const auto fails = [&](int64_t value) {
      level.box[variable] = {value, value};
      return holds(propagator, level) == Truth::No;
    };
    if (is_last) {
      std::erase_if(values, fails);
    } else {
      values.erase(values.begin(), std::ranges::find_if_not(values, fails));
      while (!values.empty() && fails(values.back())) values.pop_back();
    }
    if (values.empty()) return false;
    level.box[variable] = {values.front(), values.back()};
    if (values.size() < before) queue_constraints_of(variable);
    return true;
  }

  void visit(size_t depth, int64_t most_work) {
    ++result_.nodes;
    const Level& level = levels_[depth];
    if (is_no_better(bound(level.box))) return;
    const auto variable = smallest_open(level);
    if (variable == level.values.size()) return keep(level);

    const std::vector<Branch> branches = branches_of(level, variable);
    for (size_t i = 0; i < branches.size(); ++i) {
      if (is_done() || is_no_better(branches[i].bound)) return;
      const int64_t left = most_work - result_.work;
      if (i > 0 && left <= 0) {
        result_.is_complete = false;
        return;
      }
      Level& next = levels_[depth + 1];
      next = level;
      next.set(variable, branches[i].value);
      queue_constraints_of(variable);
      const auto parts = static_cast<int64_t>(is_even_ ? branches.size() - i : 1);
      if (narrow(next)) visit(depth + 1, result_.work + left / parts);
    }
  }

  /// The variable with the fewest values of those that have several; their number if none has.
  static uint32_t smallest_open(const Level& level) {
    auto smallest = static_cast<uint32_t>(level.values.size());
    for (uint32_t i = 0; i < level.values.size(); ++i) {
      if (!level.is_open(i)) continue;
      if (smallest == level.values.size() ||
          level.values[i].size() < level.values[smallest].size()) {
        smallest = i;
      }
    }
    return smallest;
  }

  std::vector<Branch> branches_of(const Level& level, uint32_t variable) {
    std::vector<Branch> branches;
    std::vector<Interval> box = level.box;
    for (const int64_t value : level.values[variable]) {
      box[variable] = {value, value};
      branches.push_back({bound(box), value});
    }
    std::ranges::stable_sort(branches, {}, &Branch::bound);
    return branches;
  }

  double bound(const std::vector<Interval>& box) {
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    if (!search_.lower_bound) return kNone;
    result_.work += kWorkOfCost;
    const double bound = search_.lower_bound({box});
    return std::isnan(bound) ? kNone : bound;
  }

  bool is_full() const { return result_.best.size() == search_.most; }

  bool is_done() const { return !search_.cost && is_full(); }

  bool is_no_better(double bound) const {
    return search_.cost && is_full() && bound >= result_.best.back().cost;
  }

  void keep(const Level& level) {
    Solution solution;
    for (const Interval& interval : level.box) solution.values.push_back(interval.least);
    std::vector<Solution>& best = result_.best;
    if (std::ranges::find(best, solution.values, &Solution::values) != best.end()) return;
    if (search_.cost) {
      result_.work += kWorkOfCost;
      solution.cost = search_.cost(solution);
      if (std::isnan(solution.cost)) solution.cost = std::numeric_limits<double>::infinity();
    }
    best.insert(std::ranges::upper_bound(best, solution.cost, {}, &Solution::cost), solution);
    if (best.size() > search_.most) best.pop_back();
  }

  const Search& search_;
  std::vector<Propagator> propagators_;
  std::vector<std::vector<uint32_t>> constraints_of_;  // of each variable
  std::vector<uint32_t> queue_;
  std::vector<bool> is_queued_;
  std::vector<Level> levels_;
  bool is_even_ = false;
  SearchResult result_;
};

}  // namespace

SearchResult search_integers(std::vector<std::vector<int64_t>> choices,
                             std::span<const IntegerConstraint* const> constraints,
                             const Search& search) {
  return IntegerSearch(std::move(choices), constraints, search).run();
}

}  // namespace rnnc
