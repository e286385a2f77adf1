/// The interpreter behind the runtime's named arrays.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/graph/interpreter.h"
#include "runtime/program/run.h"

namespace rnnc::test {

/// The arrays of `args` as the interpreter takes them, without lengths and resets.
InterpreterArgs interpreter_args(const Graph& graph, const RunArgs& args);

/// Runs a bound Graph in float64. Every input and param must be in `args`, initial states that are
/// not start as declared. Lengths and resets are those of
/// tests/support/reference/sequence_oracle.h.
RunResult interpret_run(const Graph& graph, const RunArgs& args);

/// An interpreter's arguments as the runtime's; lengths and resets as in
/// tests/support/reference/sequence_oracle.h.
RunArgs named_args(const Graph& graph, const InterpreterArgs& args,
                   const std::vector<int64_t>& lengths, const std::vector<uint8_t>& resets);

}  // namespace rnnc::test
