/// Gradients against finite differences of what a Graph means.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/graph/interpreter.h"
#include "passes/gradient/residuals.h"

namespace rnnc::test {

struct GradientCheck {
  int64_t steps = 5;
  int64_t batch = 2;
  uint64_t seed = 1;
  bool given_states = false;
  bool lengths = false;
  bool resets = false;
  ResidualChoice residuals = ResidualChoice::Auto;
  bool outputs = false;  // as in DifferentiateOptions
  size_t entries = 8;    // of each array, chosen at random
  bool simplify = true;
};

struct GradientReport {
  double error = 0;   // the largest difference, over the norm of its array's gradient
  std::string worst;  // where
  size_t compared = 0;
  std::vector<std::string> kinks;  // entries at which the function bends or jumps, each in words
  double kink_share = 0;           // of the entries tried of an array, the largest
};

/// Compares the gradients of sum(w * outputs) + sum(v * final states), w and v random, with central
/// differences of plain runs (tests/support/reference/sequence_oracle.h).
GradientReport check_gradients(const Graph& graph, const InterpreterArgs& args,
                               const GradientCheck& check);

}  // namespace rnnc::test
