/// Networks whose recurrences run side by side, or could.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc::test {

/// All names.
std::vector<std::string> networks();

/// A bound Graph with delays as states of its own; inputs and states are `size` wide.
///   Stack      three layers of LSTM
///   Mixed      four layers: dense, with a reduction, elementwise, dense again
///   Both       two layers of LSTM in both directions
///   Branches   two LSTMs side by side, and one on top of them
Graph network(const std::string& name, int64_t size);

/// Layers one on top of the other, of these cells:
///   Dense, Normed      tanh, of a layer norm too
///   Gated, Projected   LSTMs, the latter with more cells than hidden units
///   Update             GRU
///   ResetBefore        GRU with two products one after the other in a step
///   Elementwise        without products of its own states
///   Many               of many arrays: 60 params beside the weights
///   Dilated            LSTM that reads itself 11 steps back
///   Skip               tanh that reads itself one step back, nine and ten
///   Lags               likewise in five places, and its input in three
///   Echoes             in three, without products of its own states
Graph tower(const std::vector<std::string>& cells, int64_t size);

}  // namespace rnnc::test
