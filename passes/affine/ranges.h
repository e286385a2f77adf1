/// Between which numbers the values of a step lie, whatever it loads.
///
///     v1 = sigmoid v0   →   [0, 1]
///     v2 = sub 1, v1    →   [0, 1]
#pragma once

#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// Of a value that is no NaN.
struct Range {
  double least = 0;
  double greatest = 0;
  /// The greatest absolute value.
  double size() const;
  friend bool operator==(const Range&, const Range&) = default;
};

/// By instruction. In exact arithmetic; functions that rounding takes out of their range by a part
/// in a million or so count as in it.
std::vector<Range> find_ranges(const std::vector<Instruction>& instructions);

}  // namespace rnnc
