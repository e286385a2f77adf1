/// The least recurrence with products, as text and as a Graph.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/graph/graph.h"

namespace rnnc::test {

/// h[t] = tanh(W x[t] + R h[t-1]) with dims such as "I, H = 64".
std::string elman_text(std::string_view dims);

/// Its dims have these values.
Graph elman_graph(int64_t inputs, int64_t size);

}  // namespace rnnc::test
