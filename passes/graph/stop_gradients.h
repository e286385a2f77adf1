/// Takes `stop_gradient` out of a Graph: it is its operand to all but differentiation
/// (passes/gradient/differentiate.h), which gives it no adjoint.
///
///     %1 = stop_gradient %0 : [H]
///     %2 = tanh %1 : [H]                →      %1 = tanh %0 : [H]
///
/// Needs a verified Graph.
#pragma once

#include "ir/graph/graph.h"

namespace rnnc {

/// True if there was one.
bool run_pass_through_stops(Graph& graph);

}  // namespace rnnc
