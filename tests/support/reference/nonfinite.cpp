#include "tests/support/reference/nonfinite.h"

#include <limits>

#include "tests/support/cells/golden_cases.h"
#include "tests/support/kept_kernels.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/interpreter_run.h"

namespace rnnc::test {
namespace {

struct Change {
  std::string what;
  RunArgs args;
};

void put(Array& array, size_t index, double value) {
  std::vector<double> values = array.to_doubles();
  values[index % values.size()] = value;
  array = Array::from_doubles(values, array.shape, DType::f64);
}

/// Sequence 1 of 3 is hit where inputs and states are changed, so that the others stay finite.
std::vector<Change> changes_of(const RunArgs& args) {
  std::vector<Change> changes;
  for (double value :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity()}) {
    const auto change = [&](std::vector<NamedArray> RunArgs::* list, size_t array, size_t index) {
      Change made = {fmt::format("{} in {}", value, (args.*list)[array].name), args};
      put((made.args.*list)[array].array, index, value);
      changes.push_back(std::move(made));
    };
    change(&RunArgs::inputs, 0, 10);
    for (size_t i = 0; i < args.initial_states.size(); ++i) change(&RunArgs::initial_states, i, 8);
    for (size_t i = 0; i < args.params.size(); ++i) change(&RunArgs::params, i, 3);
  }
  return changes;
}

/// Small, with three sequences and given states.
GoldenCase small_case(const std::string& cell, DType rounding) {
  for (GoldenCase& golden_case : golden_cases(cell, {rounding})) {
    if (golden_case.size.name == "T7_B3_H7" && golden_case.size.given_states) {
      return std::move(golden_case);
    }
  }
  RNNC_CHECK(false, "{} has no small case", cell);
}

}  // namespace

Result<std::vector<std::string>> nonfinite_differences(const std::string& cell,
                                                       const CompileOptions& options,
                                                       double tolerance) {
  const GoldenCase golden_case = small_case(cell, options.dtype);
  const Result<Graph> graph = golden_graph(golden_case);
  if (!graph) return tl::unexpected(graph.error());
  auto program = Program::compile(*graph, with_kept_kernels(options));
  if (!program) return tl::unexpected(program.error());
  std::vector<std::string> differences;
  for (const Change& change : changes_of(golden_arguments(*graph, golden_case))) {
    const auto actual = Runner(*program).run(change.args);
    if (!actual) return tl::unexpected(actual.error());
    const RunResult expected = interpret_run(*graph, change.args);
    const auto compare = [&](const NamedArray& ours, const NamedArray& theirs) {
      const double error = error_of(ours.array.to_doubles(), theirs.array.to_doubles());
      if (error > tolerance) {
        differences.push_back(fmt::format("{}: {} is off by {}", change.what, ours.name, error));
      }
    };
    for (size_t i = 0; i < expected.outputs.size(); ++i) {
      compare(actual->outputs.at(i), expected.outputs[i]);
    }
    for (size_t i = 0; i < expected.final_states.size(); ++i) {
      compare(actual->final_states.at(i), expected.final_states[i]);
    }
  }
  return differences;
}

}  // namespace rnnc::test
