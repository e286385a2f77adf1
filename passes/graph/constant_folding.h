/// Evaluates scalar ops whose operands are all constants, in float64 as the interpreter does.
///
///     %0 = const 2 : []                 %0 = const 2 : []       (now unused)
///     %1 = sqrt %0 : []          →      %1 = const 1.4142135623730951 : []
///
/// NaN and infinity come out as they would have been computed, whatever the type: 1e300 / 1e200,
/// which float32 holds as inf / inf, stays as it is. Needs a verified Graph.
#pragma once

#include "ir/graph/graph.h"

namespace rnnc {

/// True if some node became a constant.
bool run_constant_folding(Graph& graph);

}  // namespace rnnc
