/// Checks a Graph's invariants. Runs after every pass.
#pragma once

#include "ir/graph/graph.h"

namespace rnnc {

/// Operand ids smaller than the node's, arities, inferred types equal to stated ones, declarations
/// in range and uniquely named, every state with `init` (time-invariant, of the state's shape or
/// scalar) and `next`, every output given. A failure is a bug in whoever made the Graph.
Status verify(const Graph& graph);

}  // namespace rnnc
