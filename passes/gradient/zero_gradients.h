/// Ops whose gradient is zero everywhere, where people may not expect it.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc {

/// Whether an op has operands' gradients that are all zero: `round`, `floor`, `sign`, comparisons,
/// `stop_gradient`.
bool has_zero_gradient(Op op);

/// For people, with the place and a hint: that nothing passes through these nodes of a Graph to what
/// they are made of. Places that occur several times are told once.
std::vector<std::string> describe_zero_gradients(const Graph& graph,
                                                 const std::vector<NodeId>& nodes);

}  // namespace rnnc
