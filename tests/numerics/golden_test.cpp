// The shipped cells against PyTorch's goldens, in the interpreter and on the CPU.
#include <gtest/gtest.h>

#include "tests/support/golden_cases.h"
#include "tests/support/interpreter_run.h"

namespace rnnc::test {
namespace {

const std::vector<DType> kRoundings = {DType::f32, DType::bf16, DType::f16};

class Goldens : public testing::TestWithParam<std::string> {};

TEST_P(Goldens, Interpreter) {
  for (const GoldenCase& golden_case : golden_cases(GetParam(), kRoundings)) {
    const Graph graph = golden_graph(golden_case);
    const RunResult result = interpret_run(graph, golden_arguments(graph, golden_case));
    EXPECT_LE(golden_error(golden_case, result), 1e-12) << golden_case.name();
  }
}

#ifdef RNNC_WITH_CPU
void expect_goldens(const std::string& cell, const CompileOptions& options, double tolerance) {
  const auto report = run_golden_cases(cell, kRoundings, options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->cases, 108);
  EXPECT_LE(report->error, tolerance) << report->worst;
}

TEST_P(Goldens, CpuF64) {
  expect_goldens(GetParam(), {.dtype = DType::f64, .threads = 1}, 1e-12);
}

TEST_P(Goldens, CpuF32) {
  expect_goldens(GetParam(), {.dtype = DType::f32, .threads = 2}, 2e-5);
}

/// 33 steps as four chunks of 8 and a rest of 1.
TEST_P(Goldens, CpuF64InChunks) {
  expect_goldens(GetParam(), {.dtype = DType::f64, .threads = 2, .chunk = 8}, 1e-12);
}
#endif

INSTANTIATE_TEST_SUITE_P(Cells, Goldens, testing::ValuesIn(golden_cells()),
                         [](const auto& cell) { return cell.param; });

}  // namespace
}  // namespace rnnc::test
