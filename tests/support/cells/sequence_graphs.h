/// Step Graphs that between them have everything that goes beyond a plain cell: delays, layers in
/// reverse, block-diagonal products, arrays of states, derived weights, slices and concatenations.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc::test {

/// All names, and those of graphs that run forward throughout.
std::vector<std::string> sequence_graphs();
std::vector<std::string> streaming_graphs();

/// A bound Graph with delays as states of their own; `dims` replace its small sizes. "Blocks" has
/// the dims I, H and N, "Bidirectional" I and H.
Graph sequence_graph(const std::string& name, const DimBindings& dims = {});

}  // namespace rnnc::test
