/// Histories that turn past a sequence's end (ir/plan/state_steps.h), in the caller's order.
#pragma once

#include "runtime/cpu/plain_launches.h"

namespace rnnc::cpu {

/// Of a state that turns, behind its launches: turns what they have filled, the histories by the
/// initial value that was given, where that is one for the sequences' ends, or the final value.
void turn_initial(const PlainCall& call, const StatePlan& state, Position position);
void turn_final(const PlainCall& call, const StatePlan& state);

}  // namespace rnnc::cpu
