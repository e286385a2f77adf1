/// Gradients in float64, by the interpreter: what devices are compared with.
#pragma once

#include <vector>

#include "ir/graph/interpreter.h"
#include "passes/gradient/differentiate.h"

namespace rnnc {

/// Arrays in the order of the differentiated Graph's declarations.
struct GradientArgs {
  InterpreterArgs forward;
  std::vector<std::vector<double>> output_gradients;       // [T, B, ...] each
  std::vector<std::vector<double>> final_state_gradients;  // [B, ...] each; empty: zero
};

/// Of what was not wanted there is an empty array.
struct Gradients {
  std::vector<std::vector<double>> inputs;          // [T, B, ...]
  std::vector<std::vector<double>> params;          // as declared
  std::vector<std::vector<double>> initial_states;  // [B, ...]
};

/// `derivative` is of `graph`; initial states are given as its options said.
Gradients interpret_gradients(const Graph& graph, const Derivative& derivative,
                              const GradientArgs& args);

}  // namespace rnnc
