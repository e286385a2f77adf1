/// How a value is spread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph/graph.h"
#include "runtime/arrays/run_args.h"
#include "runtime/debug/observer.h"

namespace rnnc::debug {

/// Of the finite elements among some; all zero if there is none.
struct Spread {
  size_t count = 0;
  size_t non_finite = 0;
  double least = 0, most = 0, mean = 0, deviation = 0;
  /// The share of them that is nearer to a limit of the value's function than 5 % of its range:
  /// of sigmoid below 0.05 or above 0.95, of tanh beyond 0.9. None of other functions.
  std::optional<double> saturated;
};

struct Statistics {
  Spread all;
  std::vector<Spread> steps;  // at each
};

/// Of the steps that each sequence has.
Statistics statistics_of(const Node& value, const Sequence& sequence, const RunArgs& args);

}  // namespace rnnc::debug
