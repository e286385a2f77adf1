// 1. Narrow: a value goes where some constraint cannot hold with it, given the intervals of the
//    other variables. Only the least and greatest values of a variable are tried, from the outside
//    in, but all of them where it is the last open variable of the constraint; so when every
//    variable has one value left, all constraints are met. Repeat until nothing changes. Then a
//    value goes as well where an expression that is to be least has no chance with it, and again.
// 2. Branch: give each value in turn to the variable with the fewest left, narrow, and go on with
//    the others; values in order of the lower bound if there is one, else from the least. A box
//    whose lower bound is no better than the worst of the solutions kept is left out.
// 3. If half of the work is done and the tree is not: start again with the other half, of which all
//    values of a variable get equal parts, so that no corner of the tree takes it all. Each value
//    that is tried goes down to the first leaf, whatever its part.
#include "passes/solver/integer_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rnnc {
namespace {

constexpr int64_t kWorkOfCost = 100;  // a call of a cost or a bound
constexpr double kWorst = std::numeric_limits<double>::infinity();

class IntegerSearch {
 public:
  IntegerSearch(std::vector<std::vector<int64_t>> choices,
                std::span<const IntegerConstraint* const> constraints, const Search& search)
      : search_(search),
        tape_(choices.size()),
        constraints_of_(choices.size()),
        levels_(choices.size() + 1) {
    std::vector<uint32_t> roots;
    for (const IntegerConstraint* constraint : constraints) {
      roots.insert(roots.end(), {tape_.add(constraint->value), tape_.add(constraint->limit)});
      add(constraint->relation, std::span(roots).last(2));
    }
    if (search.least) {
      least_ = tape_.add(*search.least);
      roots.push_back(least_);
    }
    of_least_ = tape_.parts_of(std::span(&least_, search.least ? 1 : 0));
    all_ = tape_.parts_of(roots);
    Level& root = levels_[0];
    for (const auto& values : choices) root.steps.push_back({values.front(), values.back()});
    root.steps = tape_.values(root.steps);
    root.values = std::move(choices);
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
    IntegerConstraint::Relation relation;
    uint32_t value, limit;  // steps of the tape
    IntegerTape::Parts parts;
  };
  /// What is left of each variable after as many branches, and what steps make of it.
  struct Level {
    std::vector<std::vector<int64_t>> values;
    std::vector<Interval> steps;

    bool is_open(uint32_t variable) const { return values[variable].size() > 1; }
    std::span<const Interval> box() const { return std::span(steps).first(values.size()); }
  };
  struct Branch {
    double bound;
    int64_t value;
  };

  void add(IntegerConstraint::Relation relation, std::span<const uint32_t> ends) {
    const auto index = static_cast<uint32_t>(propagators_.size());
    propagators_.push_back({relation, ends[0], ends[1], tape_.parts_of(ends)});
    for (const uint32_t variable : propagators_.back().parts.variables) {
      constraints_of_[variable].push_back(index);
    }
    is_queued_.push_back(true);
    queue_.push_back(index);
  }

  void queue_constraints_of(uint32_t variable) {
    for (const uint32_t index : constraints_of_[variable]) {
      if (!is_queued_[index]) queue_.push_back(index);
      is_queued_[index] = true;
    }
  }

  /// Steps that are not among `parts` stay as they were.
  void set(Level& level, uint32_t variable, const Interval& interval,
           const IntegerTape::Parts& parts) {
    level.steps[variable] = interval;
    tape_.update(parts.users[variable], level.steps);
    result_.work += std::ssize(parts.users[variable]);
  }

  /// What `set` changes, before values are tried.
  void remember(const Level& level, uint32_t variable, const IntegerTape::Parts& parts) {
    remembered_ = level.steps[variable];
    remembered_users_.clear();
    for (const uint32_t step : parts.users[variable]) {
      remembered_users_.push_back(level.steps[step]);
    }
  }

  /// As it was before values were tried. Counts as much work as making the steps anew. True.
  bool restore(Level& level, uint32_t variable, const IntegerTape::Parts& parts) {
    const std::vector<uint32_t>& users = parts.users[variable];
    level.steps[variable] = remembered_;
    for (size_t i = 0; i < users.size(); ++i) level.steps[users[i]] = remembered_users_[i];
    result_.work += std::ssize(users);
    return true;
  }

  /// Narrows by the queued constraints, those of each variable that is narrowed, and the cost;
  /// false if one of them cannot be met, or there is far too much work.
  bool narrow(Level& level) {
    bool can_hold = true;
    do {
      for (size_t next = 0; next < queue_.size(); ++next) {
        is_queued_[queue_[next]] = false;
        if (result_.work / 2 >= search_.most_work) result_.is_complete = can_hold = false;
        can_hold = can_hold && narrow_by(propagators_[queue_[next]], level);
      }
      queue_.clear();
      can_hold = can_hold && narrow_by_cost(level);
    } while (!queue_.empty());
    return can_hold;
  }

  Truth holds(const Propagator& propagator, const Level& level) {
    ++result_.work;
    return IntegerConstraint::holds(propagator.relation, level.steps[propagator.value],
                                    level.steps[propagator.limit]);
  }

  bool narrow_by(const Propagator& propagator, Level& level) {
    const Truth truth = holds(propagator, level);
    if (truth != Truth::Unknown) return truth == Truth::Yes;
    const auto open = std::ranges::count_if(
        propagator.parts.variables, [&](uint32_t variable) { return level.is_open(variable); });
    if (open == 0) return false;  // a number that overflows
    return narrow_variables(propagator.parts, open == 1, level,
                            [&] { return holds(propagator, level) == Truth::No; });
  }

  bool narrow_by_cost(Level& level) {
    if (!search_.least || !is_full()) return true;
    const auto fails = [&] { return is_no_better(bound(level)); };
    return !fails() && narrow_variables(of_least_, false, level, fails);
  }

  /// Takes those values of open variables away with which something made of `parts` fails.
  template <typename Fails>
  bool narrow_variables(const IntegerTape::Parts& parts, bool tries_all, Level& level,
                        const Fails& fails) {
    return std::ranges::all_of(parts.variables, [&](uint32_t variable) {
      if (!level.is_open(variable)) return true;
      std::vector<int64_t>& values = level.values[variable];
      const size_t before = values.size();
      remember(level, variable, parts);
      const auto fails_with = [&](int64_t value) {
        set(level, variable, {value, value}, parts);
        return fails();
      };
      if (tries_all) {
        std::erase_if(values, fails_with);
      } else {
        values.erase(values.begin(), std::ranges::find_if_not(values, fails_with));
        while (!values.empty() && fails_with(values.back())) values.pop_back();
      }
      if (values.empty()) return false;
      if (values.size() == before) return restore(level, variable, parts);
      set(level, variable, {values.front(), values.back()}, all_);
      queue_constraints_of(variable);
      return true;
    });
  }

  void visit(size_t depth, int64_t most_work) {
    ++result_.nodes;
    Level& level = levels_[depth];
    if (is_no_better(bound(level))) return;
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
      const int64_t value = branches[i].value;
      Level& next = levels_[depth + 1];
      next = level;
      next.values[variable] = {value};
      set(next, variable, {value, value}, all_);
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

  std::vector<Branch> branches_of(Level& level, uint32_t variable) {
    std::vector<Branch> branches;
    const std::vector<Interval> steps = level.steps;
    for (const int64_t value : level.values[variable]) {
      set(level, variable, {value, value}, of_least_);
      branches.push_back({bound(level), value});
    }
    level.steps = steps;
    std::ranges::stable_sort(branches, {}, &Branch::bound);
    return branches;
  }

  double bound(const Level& level) {
    if (search_.least) return static_cast<double>(level.steps[least_].least);
    if (!search_.lower_bound) return -kWorst;
    result_.work += kWorkOfCost;
    const double bound = search_.lower_bound({level.box()});
    return std::isnan(bound) ? -kWorst : bound;
  }

  bool is_full() const { return result_.best.size() == search_.most; }

  bool has_cost() const { return search_.least || search_.cost; }

  bool is_done() const { return !has_cost() && is_full(); }

  bool is_no_better(double bound) const {
    return has_cost() && is_full() && bound >= result_.best.back().cost;
  }

  void keep(const Level& level) {
    Solution solution;
    for (const Interval& interval : level.box()) solution.values.push_back(interval.least);
    std::vector<Solution>& best = result_.best;
    if (std::ranges::find(best, solution.values, &Solution::values) != best.end()) return;
    if (search_.least) {
      const Interval& cost = level.steps[least_];
      solution.cost = cost.is_number() ? static_cast<double>(cost.least) : kWorst;
    } else if (search_.cost) {
      result_.work += kWorkOfCost;
      solution.cost = search_.cost(solution);
      if (std::isnan(solution.cost)) solution.cost = kWorst;
    }
    best.insert(std::ranges::upper_bound(best, solution.cost, {}, &Solution::cost), solution);
    if (best.size() > search_.most) best.pop_back();
  }

  const Search& search_;
  IntegerTape tape_;
  std::vector<Propagator> propagators_;
  uint32_t least_ = 0;                                 // the step of what is to be least…
  IntegerTape::Parts of_least_;                        // …and what that is made of
  IntegerTape::Parts all_;                             // of that and all constraints
  std::vector<std::vector<uint32_t>> constraints_of_;  // of each variable
  std::vector<uint32_t> queue_;
  std::vector<bool> is_queued_;
  std::vector<Level> levels_;
  Interval remembered_;  // of a variable and its users, before values of it are tried
  std::vector<Interval> remembered_users_;
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
