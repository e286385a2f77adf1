// The shipped cells against goldens from elsewhere, in the interpreter and on the CPU.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "tests/support/cells/golden_cases.h"
#include "tests/support/reference/interpreter_run.h"

namespace rnnc::test {
namespace {

const std::vector<DType> kRoundings = {DType::f32, DType::bf16, DType::f16};

class Goldens : public testing::TestWithParam<std::string> {};

TEST_P(Goldens, Interpreter) {
  for (const GoldenCase& golden_case : golden_cases(GetParam(), kRoundings)) {
    const Result<Graph> graph = golden_graph(golden_case);
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    const RunResult result = interpret_run(*graph, golden_arguments(*graph, golden_case));
    EXPECT_LE(golden_error(golden_case, result), golden_tolerance(DType::f64))
        << golden_case.name();
  }
}

#ifdef RNNC_WITH_CPU
void expect_goldens(const std::vector<GoldenCase>& cases, const CompileOptions& options) {
  const auto report = run_golden_cases(cases, options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_LE(report->error, golden_tolerance(options.dtype)) << report->worst;
}

TEST_P(Goldens, CpuF64) {
  const auto cases = golden_cases(GetParam(), kRoundings);
  EXPECT_GE(cases.size(), 15u);
  expect_goldens(cases, {.dtype = DType::f64, .threads = 1});
}

TEST_P(Goldens, CpuF32) {
  expect_goldens(golden_cases(GetParam(), kRoundings), {.dtype = DType::f32, .threads = 2});
}

/// 33 steps as four chunks of 8 and a rest of 1.
TEST_P(Goldens, CpuF64InChunks) {
  auto cases = golden_cases(GetParam(), kRoundings);
  std::erase_if(cases,
                [](const GoldenCase& one) { return one.size.steps != 33 || one.size.batch != 16; });
  EXPECT_GE(cases.size(), 3u);
  expect_goldens(cases, {.dtype = DType::f64, .threads = 2, .chunk = 8});
}
#endif

INSTANTIATE_TEST_SUITE_P(Cells, Goldens, testing::ValuesIn(golden_cells()),
                         [](const auto& cell) { return cell.param; });

/// A cell or network without a golden would be tested by nothing.
TEST(Examples, AllHaveGoldens) {
  std::set<std::string> files;
  for (const std::string& cell : golden_cells()) {
    const auto file = golden_source(cell);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_TRUE(files.insert(*file).second) << *file;
  }
  for (const std::string folder : {"examples/cells/", "examples/networks/"}) {
    for (const auto& entry : std::filesystem::directory_iterator(data_root() / folder)) {
      if (entry.path().extension() != ".rnn") continue;
      EXPECT_TRUE(files.contains(folder + entry.path().filename().string())) << entry.path();
    }
  }
}

}  // namespace
}  // namespace rnnc::test
