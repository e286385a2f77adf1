/// Which stages of a plan may run at the same time though they are of one lag: the directions of a
/// bidirectional layer, say.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// A run of neighbours among `Plan::stages`: [begin, end).
struct StageRun {
  size_t begin = 0;
  size_t end = 0;
};

/// All stages, in order, in the longest runs of recurrences of domain Step, one sweep and one lag,
/// no one of which touches a buffer that another writes. Any other stage is a run of its own.
std::vector<StageRun> side_by_side(const Plan& plan);

}  // namespace rnnc
