/// Lets a recurrence that runs step by step do the cheap elementwise work right before and after
/// it, for which a kernel of its own would have to go through memory.
///
///     sequence: product p = W x
///     sequence: kernel { a = p + b }                      sequence: product p = W x
///     step h:   kernel { … a …; h = … }            →      step h:   kernel { … p + b …; h = …;
///     sequence: kernel { y = where(valid, h, 0) }                            y = … }
///
/// What a step loads for it besides does not vary over time, or is one number per row.
#pragma once

#include "passes/schedule/schedule.h"

namespace rnnc {

/// Moves values of `schedule`, which has no groups yet, to other stages.
void absorb_cheap_work(const Graph& graph, const Dependence& dependence, Schedule& schedule);

}  // namespace rnnc
