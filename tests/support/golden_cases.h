/// The cells shipped in examples/ against PyTorch's goldens, for any way of running a Graph: the
/// interpreter, the CPU, a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "runtime/run.h"

namespace rnnc::test {

/// One row of the grid that tests/goldens/make_goldens.py computes.
struct GoldenCase {
  std::string cell;
  int64_t steps = 0;
  int64_t batch = 0;
  int64_t hidden = 0;
  DType rounding = DType::f32;  // of inputs and params; initial states are always f32 numbers
  bool given_states = false;    // initial states are given; else they start as declared

  /// "T7_B3_H64_bf16".
  std::string name() const;
  DimBindings dims() const;
};

/// Every cell that has goldens.
const std::vector<std::string>& golden_cells();

/// A cell's cases, ordered so that those of one Graph, then of one batch size stand together.
std::vector<GoldenCase> golden_cases(const std::string& cell, const std::vector<DType>& roundings);
inline constexpr int64_t kGoldenSteps = 33;  // the longest

/// The shipped cell's Graph, bound to the case's dims.
Graph golden_graph(const GoldenCase& golden_case);

/// The case's arrays, float64, under the Graph's names.
RunArgs golden_arguments(const Graph& graph, const GoldenCase& golden_case);

/// Largest error over outputs and final states; infinite if the golden's are others.
double golden_error(const GoldenCase& golden_case, const RunResult& result);

/// Runs all cases of a cell with these roundings through a Program, and gives the largest error and
/// where it was. `options` says device and dtype. Fails as a Status does when compiling or running
/// does.
struct GoldenReport {
  double error = 0;
  std::string worst;  // name of the case
  int cases = 0;
};
Result<GoldenReport> run_golden_cases(const std::string& cell, const std::vector<DType>& roundings,
                                      const CompileOptions& options);

}  // namespace rnnc::test
