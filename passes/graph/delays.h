/// Gives every delay a state of its own, so that one mechanism carries values over time, and what
/// a later call needs to go on is the states and nothing else.
///
///     state h: [H]                      state h: [H]
///     %0 = input x @ 1 : [I]     →      state x@1: [I]
///     %1 = state h @ 2 : [H]            state h@2: [H] delay of h
///                                       %0 = state x@1 @ 1 : [I]
///                                       %1 = state h@2 @ 1 : [H]
///                                       %2 = const 0 : []
///                                       %3 = input x : [I]
///                                       %4 = state h @ 1 : [H]
///                                       init x@1 = %2             next x@1 = %3
///                                       init h@2 = (that of h)    next h@2 = %4
///
/// `x@2` takes the value of `x@1`, and so on; a state that the Graph has under such a name already
/// is that one. Where the Graph keeps a local or a layer's input, its state `u@1` is delayed as any
/// other, by `u@2` and so on. Delays run in the direction of what they delay. From here on only
/// states at t - 1 cross steps. The new states come after the Graph's own.
///
/// What is read more than `kMostDelayStates` steps back has one state for all of its delays, a
/// history: the earlier values in the order of their steps, without those that have a state anyway.
///
///     input x: [I]                      input x: [I]
///     %0 = input x @ 900 : [I]   →      state x@history: [900, I]
///                                       %0 = state x@history @ 1 : [900, I]
///                                       %1 = index %0 at 0 : [I]
///                                       %2 = const 0 : []
///                                       %3 = input x : [I]
///                                       %4 = slice %0 from 1 to 900 : [899, I]
///                                       %5 = stack %3 : [1, I]
///                                       %6 = concat %4, %5 : [900, I]
///                                       init x@history = %2       next x@history = %6
///
/// `h[t-900]` is in `h@history: [899, H]`, whose last element is `h[t-2]`; `u@history` lies behind
/// `u@1` in the same way.
#pragma once

#include "ir/graph/graph.h"

namespace rnnc {

/// A state for each step costs less than a history until there are this many: a recurrence keeps
/// them where it keeps its other states.
inline constexpr uint32_t kMostDelayStates = 8;

/// Needs a verified Graph. True if there was a delay.
bool run_delays(Graph& graph);

}  // namespace rnnc
