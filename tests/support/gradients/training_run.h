/// Whole training calls on random arrays, on any device, and whether two give the same bits.
#pragma once

#include <string>

#include "ir/graph/graph.h"
#include "runtime/program/run.h"

namespace rnnc::test {

struct TrainingRun {
  int64_t steps = 7;
  int64_t batch = 3;
  uint64_t seed = 1;
  bool lengths = false;  // 0 and T among them
  bool resets = false;
  bool given_states = false;
};

/// Random arrays for a program's training calls.
struct TrainingArrays {
  RunArgs args;
  LossGradients loss;  // by all outputs and final states
};
TrainingArrays random_training(const Signature& signature, const TrainingRun& run);

/// The first array of which some bits are not the same: results, then gradients. Empty: none.
std::string find_difference(const RunGradients& a, const RunGradients& b);

/// Expects of a Graph whose dims are bound: training calls with checkpoints each so many steps give
/// the bits of those without.
void check_checkpoints(const Graph& graph, const CompileOptions& options, const TrainingRun& run,
                       const std::vector<int64_t>& checkpoints);

}  // namespace rnnc::test
