// Gradients of the shipped cells against those of PyTorch's autograd in float64, on the CPU.
#ifdef RNNC_WITH_CPU
#include <gtest/gtest.h>

#include "tests/support/gradients/golden_gradients.h"

namespace rnnc::test {
namespace {

class GradientGoldens : public testing::TestWithParam<std::string> {};

void expect_gradients(const std::string& cell, const CompileOptions& options,
                      ResidualChoice residuals, double tolerance) {
  if (!has_golden_gradients(cell)) return;  // autograd has none (tests/passes/gradient)
  const auto report = run_golden_gradients(cell, options, residuals);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_LE(report->error, tolerance) << report->worst;
  EXPECT_GE(report->cases, 10);
}

TEST_P(GradientGoldens, CpuF64) {
  expect_gradients(GetParam(), {.dtype = DType::f64, .threads = 1}, ResidualChoice::Auto, 1e-10);
}

TEST_P(GradientGoldens, CpuF32) {
  expect_gradients(GetParam(), {.dtype = DType::f32, .threads = 2}, ResidualChoice::Least, 1e-4);
}

TEST_P(GradientGoldens, CpuF64InChunks) {
  expect_gradients(GetParam(), {.dtype = DType::f64, .threads = 2, .chunk = 3}, ResidualChoice::All,
                   1e-10);
}

class GradientGoldensOfScans : public testing::TestWithParam<const char*> {};

TEST_P(GradientGoldensOfScans, CpuF64) {
  expect_gradients(GetParam(), {.dtype = DType::f64, .threads = 2, .strategy = Strategy::Scan},
                   ResidualChoice::Auto, 1e-10);
}

INSTANTIATE_TEST_SUITE_P(Cells, GradientGoldensOfScans,
                         testing::Values("BidirectionalMinGRU", "HGRN", "LRU", "MinGRU", "MinLSTM",
                                         "QRNN", "RGLRU", "RWKV4", "S4D"),
                         [](const auto& cell) { return cell.param; });

INSTANTIATE_TEST_SUITE_P(Cells, GradientGoldens, testing::ValuesIn(golden_cells()),
                         [](const auto& cell) { return cell.param; });

}  // namespace
}  // namespace rnnc::test
#endif
