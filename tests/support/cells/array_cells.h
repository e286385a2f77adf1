/// Cells with loops over arrays of states, params and inputs that plans keep, in both halves of
/// their derivatives.
#pragma once

#include <cstdint>
#include <string>

#include "ir/graph/graph.h"

namespace rnnc::test {

/// A delta rule: `count` rows of `size` elements, sums over rows and within them.
Graph delta_rule(int64_t count, int64_t size);

/// The text of a cell named Cell with dims K and H that a seed decides: what its loops read, in
/// which order they go, and what they add up.
std::string random_array_cell(uint64_t seed);

/// That cell, bound and without delays.
Graph random_array_graph(uint64_t seed, int64_t count, int64_t size);

/// Likewise of loops in loops: a cell named Cell with dims N, K and H.
std::string random_nest_cell(uint64_t seed);

/// That cell, bound and without delays.
Graph random_nest_graph(uint64_t seed, int64_t outer, int64_t inner, int64_t size);

}  // namespace rnnc::test
