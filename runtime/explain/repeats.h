/// What a step does again and again, so that pictures can show it once.
#pragma once

#include "runtime/explain/graph_picture.h"

namespace rnnc::explain {

/// Fills `repeats` of the picture of a step Graph.
void find_repeats(GraphPicture& picture);

}  // namespace rnnc::explain
