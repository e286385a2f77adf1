/// Of a plan of one step in 16 bits: recurrences round the states that their products take as they
/// load them, so that no launch before them has to.
///
///     h: f32 initial state b5; b7 bf16, batch x 8     →  b7 f32, batch x 8
///     resident: a0 += b7 @ b2^T                          resident: a0 += b7 @ b2^T
///     given: k2(b5, b6[t-1], b7)                         given: k3(b5, b7)
#pragma once

#include "ir/plan/plan.h"

namespace rnnc {

/// After run_initial_values (passes/plan/one_step.h), on recurrences that are resident. What begins a
/// state then is a copy, if it is given, which calls can do without (ir/plan/direct_states.h). True
/// if there is any such state.
bool run_round_states(Plan& plan);

}  // namespace rnnc
