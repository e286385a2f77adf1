/// Sequences of values inside a step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/graph/graph.h"
#include "runtime/arrays/run_args.h"
#include "runtime/backend/options.h"

namespace rnnc::debug {

/// A value at all steps, [steps, batch, width]; past a sequence's end zeros.
struct Sequence {
  size_t steps = 0;
  size_t batch = 0;
  size_t width = 0;  // elements of a row
  std::vector<double> elements;

  std::span<const double> row(size_t step, size_t sequence) const {
    return {elements.data() + (step * batch + sequence) * width, width};
  }
};

/// A Graph's run on given arrays, for those who look into its steps.
class Observer {
 public:
  /// `graph` is bound; `args` are whole runs with all params. All outlive this.
  Observer(const Graph& graph, const CompileOptions& options, const RunArgs& args)
      : graph_(graph), options_(options), args_(args) {}

  /// Sequences of values that change with the step and are no integers. Compiles the Graph with these
  /// as its outputs and runs it.
  Result<std::vector<Sequence>> observe(std::span<const NodeId> values) const;

  const Graph& graph() const { return graph_; }
  const RunArgs& args() const { return args_; }

 private:
  const Graph& graph_;
  const CompileOptions& options_;
  const RunArgs& args_;
};

}  // namespace rnnc::debug
