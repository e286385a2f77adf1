/// What a step, or its launches, do again and again, so that pictures can show it once.
#pragma once

#include <string>
#include <vector>

#include "runtime/explain/graph_picture.h"

namespace rnnc::explain {

/// Fills `repeats` of a picture. `marks` has a text for each node: where it stands, or what it
/// does. Turns of a loop have the same marks in the same order; nodes without one ("") are in none.
void find_repeats(GraphPicture& picture, const std::vector<std::string>& marks);

}  // namespace rnnc::explain
