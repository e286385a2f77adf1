/// Lengths, resets and reversal as transformations of the Graph, so that every later pass and
/// strategy inherits them.
///
/// With lengths, past a sequence's end states stay and outputs are zero; h being a state, y an
/// output:
///
///     next h = %n                       %h = state h @ 1 : [H]
///     output y = %y              →      %v = valid : []
///                                       %m = where %v, %n, %h : [H]
///                                       %z = where %v, %y, 0 : [H]
///                                       next h = %m
///                                       output y = %z
///
/// With resets, a state's reads become its declared initial value where the sequence begins anew:
///
///     %0 = state h @ 1 : [H]     →      %0 = state h @ 1 : [H]
///                                       %r = reset : []
///                                       %1 = where %r, %init, %0 : [H]   (used instead of %0)
///
/// An entry of a history (passes/graph/delays.h) that is d steps old is masked by itself, by the
/// resets of d steps:
///
///     %1 = index %0 at 0 : [H]   →      %1 = index %0 at 0 : [H]             (d is 900)
///                                       %r = reset @ 899 : []
///                                       %2 = where %r, %init, %1 : [H]   (used instead of %1)
///
/// What a state keeps past the end is what it held, resets there or not. Values of states that run
/// in reverse get `valid` and `reset` of their direction.
#pragma once

#include "ir/graph/graph.h"

namespace rnnc {

/// Each needs a verified Graph without delays beyond states at t - 1 (passes/graph/delays.h), and
/// is for once in a Graph's life. Of those that are wanted, `run_in_reverse` comes first and
/// `run_lengths` last: it keeps states as they are, not as resets would have them read. True if the
/// graph changed.
bool run_lengths(Graph& graph);
bool run_resets(Graph& graph);

/// Turns a Graph whose states all run forward into one that reads its inputs from the sequence's
/// last step to its first; outputs keep their steps.
bool run_in_reverse(Graph& graph);

}  // namespace rnnc
