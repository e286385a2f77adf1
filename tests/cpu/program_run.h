/// Runs a Graph through the CPU backend with an interpreter's arguments.
#pragma once

#include "ir/graph/interpreter.h"
#include "runtime/program/program.h"

namespace rnnc::test {

/// A bound graph of a cell of `examples/cells/FILE`.
Graph example_graph(const std::string& file, const std::string& cell, const DimBindings& dims);

/// With the states that delays imply, which a program has too.
Graph with_states(Graph graph);

/// What a call comes with besides its arrays.
struct CallSequences {
  std::vector<int32_t> lengths;  // [B], or empty
  std::vector<uint8_t> resets;   // [T, B], or empty
};

/// Compiles `graph` and keeps it with its memory.
class CpuProgram {
 public:
  CpuProgram(const Graph& graph, const CompileOptions& options, int64_t batch, int64_t max_steps,
             SequenceFeatures features = {});
  InterpreterResult run(const InterpreterArgs& args, bool reuse_params = false,
                        const CallSequences& sequences = {});
  /// How often any thread called `operator new` during the last `forward`.
  int64_t allocations_in_last_run() const { return allocations_; }

 private:
  Program program_;
  int64_t allocations_ = 0;
};

/// The largest |a - b| / (1 + largest |b|) over all arrays; infinity where one is NaN and the other
/// is not.
double worst_error(const InterpreterResult& got, const InterpreterResult& wanted);

}  // namespace rnnc::test
