/// States that a call of one step need not copy from and to the caller's arrays.
#pragma once

#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// What of a state may lie in the caller's arrays themselves, in a call of one step: then
/// `init_given` and `write_final` have nothing to do. No launch sees a difference, as long as the
/// caller's final array is no memory that the call reads.
struct DirectState {
  /// A Chunk buffer of one earlier step, or a Batch buffer that no stage writes. Before the call's
  /// step it holds the caller's initial value and nothing else; kNoBuffer: there is none.
  BufferId initial = kNoBuffer;
  /// Of `initial`: what `init_declared` fills it with is zeros.
  bool starts_at_zero = false;
  /// Likewise: at the call's step it holds the final value. Or a Batch buffer, which holds nothing
  /// but the state from the beginning on.
  BufferId final = kNoBuffer;
};

/// One for each state of the plan. None is direct in a plan with lags, whose histories move within a
/// call of one step.
std::vector<DirectState> find_direct_states(const Plan& plan);

}  // namespace rnnc
