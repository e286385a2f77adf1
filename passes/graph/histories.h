/// Finds states that hand on their elements from step to step, each to the place before it, with
/// one new element behind them (passes/graph/delays.h makes such), and reads earlier steps of what
/// becomes that element instead. Plans keep these as rows of steps, which nothing has to move.
///
///     state x@history: [900, I]                 state x@history: [I]
///     %0 = state x@history @ 1 : [900, I]       %0 = input x : [I]
///     %1 = index %0 at 0 : [I]            →     %1 = state x@history @ 900 : [I]
///     %2 = input x : [I]                        next x@history = %0
///     %3 = slice %0 from 1 to 900 : [899, I]
///     %4 = stack %2 : [1, I]
///     %5 = concat %3, %4 : [900, I]
///     next x@history = %5
///
/// With resets and lengths a row of the batch has a history of its own; such states stay as they
/// are, and so does one that starts as anything but one number.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc {

/// Of each state how many steps the caller's arrays of it hold, [B, steps, ...] with the earliest
/// first; 1: it is no history, and they are [B, ...]. Needs a bound Graph after the pipeline.
std::vector<int64_t> make_histories(Graph& graph);

}  // namespace rnnc
