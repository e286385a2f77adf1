/// The cells shipped in examples/ against goldens from elsewhere, for any way of running a Graph:
/// the interpreter, the CPU, a GPU. Cells are found by themselves: each file of tests/goldens names
/// one, and the file in examples/ that ends with its definition is its source.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "runtime/program/run.h"
#include "tests/support/reference/golden.h"

namespace rnnc::test {

/// One size of a cell with numbers of one rounding.
struct GoldenCase {
  std::string cell;
  GoldenSize size;
  DType rounding = DType::f32;  // of inputs and params; initial states are always f32 numbers

  /// "T7_B3_H64_bf16".
  std::string name() const;
};

/// Every cell that has goldens, in order of name.
const std::vector<std::string>& golden_cells();

/// The goldens of one of them; read once.
const GoldenFile& golden_file(const std::string& cell);

/// Where the cell is defined ("examples/cells/lstm.rnn"); an error if nowhere.
Result<std::string> golden_source(const std::string& cell);

/// A cell's cases, ordered so that those of one Graph stand together.
std::vector<GoldenCase> golden_cases(const std::string& cell, const std::vector<DType>& roundings);

/// The shipped cell's Graph, bound to the case's dims, with delays as states of their own. Fails
/// with the compiler's diagnostics.
Result<Graph> golden_graph(const GoldenCase& golden_case);

/// The case's arrays, float64, under the Graph's names.
RunArgs golden_arguments(const Graph& graph, const GoldenCase& golden_case);

/// Largest error over outputs and final states; infinite if the golden's are others.
double golden_error(const GoldenCase& golden_case, const RunResult& result);

/// The largest error that counts as a match where values are stored like this.
double golden_tolerance(DType dtype);

/// Runs these cases of one cell through a Program, and gives the largest error and where it was.
/// `options` says device and dtype. Fails as a Status does when compiling or running does.
struct GoldenReport {
  double error = 0;
  std::string worst;  // name of the case
  int cases = 0;
};
Result<GoldenReport> run_golden_cases(const std::vector<GoldenCase>& cases,
                                      const CompileOptions& options);

}  // namespace rnnc::test
