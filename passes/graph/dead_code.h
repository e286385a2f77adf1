/// Removes values that no output and no state needs.
///
///     %0 = input x : [I]                %0 = input x : [I]
///     %1 = tanh %0 : [I]         →      output y = %0
///     output y = %0
///
/// Needs a verified Graph. Declarations stay: they are the caller's view.
#pragma once

#include "ir/graph/graph.h"

namespace rnnc {

/// True if something was removed.
bool run_dead_code(Graph& graph);

}  // namespace rnnc
