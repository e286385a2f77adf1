/// Plans of one step: what its states are before it and after it lies apart.
#pragma once

#include "ir/plan/plan.h"

namespace rnnc {

/// Of a plan whose calls have one step, loops load their carries from the step before, as other
/// stages do, so that a call may find them where the caller has them and leave them elsewhere
/// (ir/plan/direct_states.h):
///
///     b3 h: f32 workspace temporary, batch x 8     →  … chunk x 8, history 1
///     loop k0(b3, b0, b3) carrying a0 = a2         →  loop k0(b3[t-1], b0, b3) carrying a0 = a2
///
/// True if there are any.
bool run_one_step(Plan& plan);

/// Likewise, before recurrences go on the chip: what steps read of the step before is a buffer of
/// its own, which no launch of theirs writes.
///
///     step h (dense):                                →  step h (dense):
///       fused: k0(product, b0, b1, b3)                    fused: k0(product, b0, b1, b3)
///         a0 += b3[t-1] @ b2^T                              a0 += b4 @ b2^T
///     given: k2(b5, b3[t-1])                            given: k2(b5, b4)
///
/// So the blocks of such a recurrence wait for each other within the step alone, if at all. True if
/// there are any.
bool run_initial_values(Plan& plan);

}  // namespace rnnc
