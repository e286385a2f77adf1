/// States of which the caller's arrays hold several steps, [B, steps, ...] with the earliest first,
/// or last.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// How many steps of a state the caller's arrays hold: as far back as its initial values reach.
inline uint32_t steps_of(const Plan& plan, const StatePlan& state) {
  uint32_t steps = 1;
  for (const Access& access : state.init_declared.accesses) {
    if (plan.buffers[access.buffer].extent == Extent::Chunk) steps = std::max(steps, access.delay);
  }
  return steps;
}

/// A launch of a state, which is of the earliest step, once for each of its steps; none if it has
/// no accesses. Where that step does not come first in the caller's arrays it is their last.
inline std::vector<ElementwiseLaunch> launches_of(const Plan& plan, const StatePlan& state,
                                                  const ElementwiseLaunch& launch) {
  if (launch.accesses.empty()) return {};
  std::vector<ElementwiseLaunch> launches(steps_of(plan, state), launch);
  const int64_t length = plan.kernels[launch.kernel].length;
  for (uint32_t step = 0; step < launches.size(); ++step) {
    for (Access& access : launches[step].accesses) {
      const Buffer& buffer = plan.buffers[access.buffer];
      const bool given = buffer.role == Role::InitialState || buffer.role == Role::FinalState;
      if (given) access.column += (access.column > 0 ? -1 : 1) * (step * length);
      if (buffer.extent == Extent::Chunk) access.delay -= step;
    }
  }
  return launches;
}

}  // namespace rnnc
