/// Gradients against central differences of what a Graph computes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "passes/gradient/interpret_gradients.h"

namespace rnnc {

/// Makes what `stop_gradient` stands before a constant to differences, too: an input or param, whose
/// values are those of a run with `args`.
void freeze_stops(Graph& graph, InterpreterArgs& args);

/// How one array's gradient compares.
struct DifferenceReport {
  std::string kind;  // "input", "param" or "state"
  std::string name;
  size_t elements = 0;
  size_t compared = 0;  // of the elements
  size_t kinks = 0;     // at which the function bends: differences say nothing there
  double norm = 0;      // of the gradient
  double error = 0;  // the largest difference, over the norm; infinite if something is not finite
  /// Where that was, and what was there.
  size_t worst = 0;
  double gradient = 0;
  double difference = 0;
};

struct DifferenceOptions {
  size_t elements = 100;  // of each array, at random; all if it has no more
  uint64_t seed = 0;
};

/// Of sum(w * outputs) + sum(v * final states), w and v the gradients in `args`, by every array of
/// which `gradients` has one. `run` computes outputs and final states; 4 runs an element.
///
/// Each element is moved by two widths. A function that is smooth there bends as much as the width
/// is; what bends more, by 1e-6 of the norm, is a kink.
std::vector<DifferenceReport> compare_with_differences(
    const Graph& graph, GradientArgs args, const Gradients& gradients,
    const std::function<InterpreterResult(const InterpreterArgs&)>& run,
    const DifferenceOptions& options);

}  // namespace rnnc
