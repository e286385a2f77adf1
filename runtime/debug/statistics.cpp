#include "runtime/debug/statistics.h"

#include <algorithm>
#include <cmath>

namespace rnnc::debug {
namespace {

/// Where a function's last twentieth begins, below and above.
struct Limits {
  bool exist = false;
  double low = 0, high = 0;
};
Limits limits_of(Op op) {
  if (op == Op::Sigmoid) return {true, 0.05, 0.95};
  if (op == Op::Tanh) return {true, -0.9, 0.9};
  return {};
}

/// Adds elements up. The deviation is by Welford's method.
class Sum {
 public:
  explicit Sum(Op op) : limits_(limits_of(op)) {}

  void add(double x) {
    if (!std::isfinite(x)) {
      ++spread_.non_finite;
      return;
    }
    const bool is_first = spread_.count++ == 0;
    spread_.least = is_first ? x : std::min(spread_.least, x);
    spread_.most = is_first ? x : std::max(spread_.most, x);
    const double off = x - spread_.mean;
    spread_.mean += off / static_cast<double>(spread_.count);
    squares_ += off * (x - spread_.mean);
    if (limits_.exist && (x < limits_.low || x > limits_.high)) ++saturated_;
  }

  Spread spread() const {
    Spread spread = spread_;
    const auto count = static_cast<double>(std::max<size_t>(spread.count, 1));
    spread.deviation = std::sqrt(squares_ / count);
    if (limits_.exist) spread.saturated = static_cast<double>(saturated_) / count;
    return spread;
  }

 private:
  Limits limits_;
  Spread spread_;
  double squares_ = 0;
  size_t saturated_ = 0;
};

}  // namespace

Statistics statistics_of(const Node& value, const Sequence& sequence, const RunArgs& args) {
  Statistics statistics;
  Sum all(value.op);
  for (size_t step = 0; step < sequence.steps; ++step) {
    Sum of_step(value.op);
    for (size_t b = 0; b < sequence.batch; ++b) {
      if (args.lengths && static_cast<int64_t>(step) >= (*args.lengths)[b]) continue;
      for (const double x : sequence.row(step, b)) {
        all.add(x);
        of_step.add(x);
      }
    }
    statistics.steps.push_back(of_step.spread());
  }
  statistics.all = all.spread();
  return statistics;
}

}  // namespace rnnc::debug
