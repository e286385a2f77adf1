/// The plain float64 interpreter: it defines the meaning of every Graph, and every backend, pass
/// and strategy is compared with it. Written to be read, not to be fast.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc {

/// Row-major float64 arrays for one run over T steps and a batch of B, in the Graph's order of
/// declaration. Inputs [T, B, ...], params as declared, initial states [B, ...].
struct InterpreterArgs {
  int64_t steps = 0;
  int64_t batch = 0;
  std::vector<std::vector<double>> inputs;
  std::vector<std::vector<double>> params;
  /// Empty, or one per state; an empty entry means the declared initial value.
  std::vector<std::vector<double>> initial_states;
  /// Of a Graph that was lowered for them (passes/graph/sequence_features.h): lengths of the
  /// sequences, [B], and where they begin anew, [T, B]. Empty: all are T, never.
  std::vector<int64_t> lengths = {};
  std::vector<uint8_t> resets = {};
};

struct InterpreterResult {
  std::vector<std::vector<double>> outputs;       // [T, B, ...]
  std::vector<std::vector<double>> final_states;  // [B, ...]
  std::vector<std::vector<double>> results = {};  // [...], or [B, ...]: as `ResultDecl` says
};

/// `graph` must verify and have no symbolic dims left; sizes must match (RNNC_CHECK).
InterpreterResult interpret(const Graph& graph, const InterpreterArgs& args);

}  // namespace rnnc
