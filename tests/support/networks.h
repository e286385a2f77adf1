/// Networks whose recurrences run side by side, or could.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace rnnc::test {

/// All names.
std::vector<std::string> networks();

/// A bound Graph with delays as states of its own; inputs and states are `size` wide.
///   Stack      three layers of LSTM
///   Mixed      four layers: dense, with a reduction, elementwise, dense again
///   Both       two layers of LSTM in both directions
///   Branches   two LSTMs side by side, and one on top of them
Graph network(const std::string& name, int64_t size);

}  // namespace rnnc::test
