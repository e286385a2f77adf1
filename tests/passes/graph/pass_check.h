/// What tests of passes over a Graph share: the same numbers.
#pragma once

#include <string>

#include "ir/graph/graph.h"

namespace rnnc::test {

/// The text as the printer writes it.
std::string normal(const std::string& text);

/// A random graph; by turns with structure, with reversals, with both and without.
Graph any_random_graph(uint64_t seed);

/// Expects the interpreter to give both graphs the same outputs and final states on random
/// arguments. `after` may have more states, which are not given.
void expect_same_results(const Graph& before, const Graph& after, uint64_t seed, int64_t steps = 5);

}  // namespace rnnc::test
