/// Evaluates scalar ops whose operands are all constants, in float64 as the interpreter does.
///
///     %0 = const 2 : []                 %0 = const 2 : []       (now unused)
///     %1 = sqrt %0 : []          →      %1 = const 1.4142135623730951 : []
///
/// Needs a verified Graph. NaN and infinity come out as the interpreter's; nothing is simplified by
/// algebra, because x * 0 is not 0 for every x.
#pragma once

#include "ir/graph.h"

namespace rnnc {

/// True if some node became a constant.
bool run_constant_folding(Graph& graph);

}  // namespace rnnc
