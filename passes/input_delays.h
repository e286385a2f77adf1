/// Turns inputs read at earlier steps into states, so that one mechanism carries values over time.
///
///     %0 = input x @ 1 : [I]     →      state x.before: [I]
///                                       %0 = state x.before @ 1 : [I]
///                                       %1 = input x : [I]
///                                       %2 = const 0 : []
///                                       init x.before = %2
///                                       next x.before = %1
///
/// Needs a verified Graph. The new states come after the Graph's own, one for each such input.
#pragma once

#include "ir/graph.h"

namespace rnnc {

/// True if there was such an input.
bool run_input_delays(Graph& graph);

}  // namespace rnnc
