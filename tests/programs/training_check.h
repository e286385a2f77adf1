/// Gradients of a random program, against what the interpreter's results do when arguments move.
#pragma once

#include <cstdint>

#include "ir/graph/graph.h"
#include "ir/graph/interpreter.h"
#include "runtime/backend/device.h"
#include "tests/programs/setting.h"

namespace rnnc::test {

/// Trains in float64 on the CPU with all passes: the gradients along a random direction must be the
/// difference quotient of a random loss. Then on `device`, in float32 on a GPU, by another choice
/// of passes, threads, residuals, chunk, checkpoints, instructions and tiles, which must give the
/// same gradients. A loss that is not smooth near the arguments has no difference quotient.
Status check_training(const Graph& graph, const InterpreterArgs& args, const Setting& setting,
                      const Device& device, uint64_t seed);

}  // namespace rnnc::test
