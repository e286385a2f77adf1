/// Makes a recurrence in which each element goes its own way through time one kernel over all steps
/// of a chunk, with elementwise work before and after it.
///
///     sequence: kernel { z = sigmoid(a); n = z * b }
///     step h:   kernel { h = (1 - z) * h[t-1] + n }      →      loop h: kernel { z = …; y = … }
///     sequence: kernel { y = tanh(h) }
#pragma once

#include "passes/schedule/schedule.h"

namespace rnnc {

/// Marks the stages of `schedule` that will be loops and moves values to them. They are scheduled
/// step by step, and come out as one kernel: `close_loop` makes it a loop.
void gather_loops(const Graph& graph, const Dependence& dependence, Schedule& schedule);
void close_loop(ScheduledStage& stage);

}  // namespace rnnc
