/// What `rnnc explain --backward` knows: both halves' plans, and what is kept from one to the other.
#pragma once

#include <string>
#include <vector>

#include "runtime/explain/explanation.h"
#include "runtime/program/planner.h"

namespace rnnc::explain {

/// A value of a forward step, and how the backward half has it.
struct ResidualInfo {
  std::string name;   // as in the equations: "i", "h[t-1]" (ir/graph/places.h)
  std::string place;  // "lstm.rnn:14:7"; empty: unknown
  Shape shape;
  std::string how;  // "saved", "anew" (computed again), "read" (an input, again) or "not needed"
  std::string why;  // in words
  std::string array = {};  // of the halves, if saved: "saved@12"
  bool asked = false;      // by a gradient; else, if it is had, for what is computed anew from it
  int64_t bytes = 0;       // if saved, of a step of one sequence
};

struct TrainingExplanation {
  std::string wanted;              // "gradients of 12 params, 1 input; initial states as declared"
  std::string residuals;           // "auto", "all" or "least"
  double operations_per_byte = 0;  // of products, that the machine does while a byte is moved
  std::vector<ResidualInfo> values;  // in the order of the step
  int64_t bytes_per_step = 0;        // of all that are saved, for one sequence
  std::vector<std::string> notes;    // what is not as asked for or may surprise
  Explanation forward, backward;
};

/// Plans of the two halves, as `PlanOptions` of either.
struct HalfOptions {
  PlanOptions forward, backward;
};

/// Of calls of so many steps; `training` is complete (Planner::complete).
Result<TrainingExplanation> explain_training(const TrainingGraphs& graphs,
                                             const HalfOptions& options,
                                             const TrainingOptions& training, int64_t steps);

}  // namespace rnnc::explain
