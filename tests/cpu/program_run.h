/// Runs a Graph through the CPU backend with an interpreter's arguments.
#pragma once

#include "ir/interpreter.h"
#include "runtime/program.h"

namespace rnnc::test {

/// A bound graph of a cell of `examples/FILE`.
Graph example_graph(const std::string& file, const std::string& cell, const DimBindings& dims);

/// Compiles `graph` and keeps it with its memory.
class CpuProgram {
 public:
  CpuProgram(const Graph& graph, const CompileOptions& options, int64_t batch, int64_t max_steps);
  InterpreterResult run(const InterpreterArgs& args, bool reuse_params = false);
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
