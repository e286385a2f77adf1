/// Finds which recurrences can be put on top of which, as sides of one launch (ir/plan/plan.h:
/// RecurrenceLaunch), and what becomes of the work between them.
///
///     step h0                                      step h0
///     sequence: product p = W h0                   sequence: product p = W h0
///               kernel y = relu(h0)          →               kernel y = relu(h0)
///     step h1: kernel h1 = tanh(p + R h1[t-1])     step h1, on top of h0 with p: kernel …
///
/// What a recurrence reads of others of its launch are products of what they store, at the same
/// step: blocks hand nothing else to each other. Here p becomes h1's own product, and y, which h1
/// does not read, comes behind both.
#pragma once

#include "passes/schedule/schedule.h"

namespace rnnc {

/// Of all stages of a finished schedule. Whether a GPU has room for them is not asked.
void find_stacks(const Graph& graph, Schedule& schedule);

}  // namespace rnnc
