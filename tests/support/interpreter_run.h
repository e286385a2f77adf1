/// The interpreter behind the runtime's named arrays.
#pragma once

#include "ir/graph.h"
#include "runtime/run.h"

namespace rnnc::test {

/// Runs a bound Graph in float64. Every input and param must be in `args`, initial states that are
/// not start as declared. Lengths and resets are those of tests/support/sequence_oracle.h.
RunResult interpret_run(const Graph& graph, const RunArgs& args);

}  // namespace rnnc::test
