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

/// An element at which the function bends or jumps, so that central differences say nothing.
struct Kink {
  size_t element = 0;
  double gradient = 0;
  // Differences to the one side and to the other. The gradient must be between them, as what
  // autograd takes for one is: that of one side, or a mean.
  double below = 0;
  double above = 0;
};

/// How one array's gradient compares.
struct DifferenceReport {
  std::string kind;  // "input", "param" or "state"
  std::string name;
  size_t elements = 0;
  size_t compared = 0;           // of the elements, with central differences
  std::vector<Kink> kinks = {};  // the others of those that were tried
  double norm = 0;               // of the gradient
  double error = 0;  // the largest difference, over the norm; infinite if something is not finite
  /// Where that was, and what was there.
  size_t worst = 0;
  double gradient = 0;
  double difference = 0;

  size_t tried() const { return compared + kinks.size(); }
  /// Of the elements that were tried, how many stand at kinks.
  double kink_share() const {
    return tried() == 0 ? 0 : static_cast<double>(kinks.size()) / static_cast<double>(tried());
  }
};

/// The rule: an error is one over the norm of the array's gradient, and more than this is wrong;
/// and with more kinks than this among an array's elements, differences prove too little.
inline constexpr double kMostDifference = 1e-6;
inline constexpr double kMostKinks = 0.01;

struct DifferenceOptions {
  size_t elements = 100;  // of each array, at random, none twice; all if it has no more
  uint64_t seed = 0;
};

/// Of sum(w * outputs) + sum(v * final states), w and v the gradients in `args`, by every array of
/// which `gradients` has one. `run` computes outputs and final states; 4 or 8 runs an element.
///
/// Each element is moved by two widths, by two narrower ones if these disagree: a smooth function
/// bends as much as the width is, and what bends more, by 1e-6 of the norm, is a kink. A gradient at a kink that is outside of the
/// differences to its sides is an error too.
std::vector<DifferenceReport> compare_with_differences(
    const Graph& graph, GradientArgs args, const Gradients& gradients,
    const std::function<InterpreterResult(const InterpreterArgs&)>& run,
    const DifferenceOptions& options);

}  // namespace rnnc
