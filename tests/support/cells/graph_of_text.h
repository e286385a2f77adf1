/// The Graph of a definition in a text, as a test writes it.
#pragma once

#include <string>

#include "ir/graph/graph.h"

namespace rnnc::test {

/// Bound to the dims. A text with errors is a bug of the test.
Graph graph_of_text(const std::string& text, const std::string& name, const DimBindings& dims);

}  // namespace rnnc::test
