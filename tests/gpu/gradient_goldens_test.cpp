// Gradients of the shipped cells on the GPU, against those of PyTorch's autograd in float64.
#include <gtest/gtest.h>

#include "tests/support/gradients/golden_gradients.h"

namespace rnnc::test {
namespace {

class GpuGradientGoldens : public testing::TestWithParam<std::string> {};

void expect_gradients(const std::string& cell, CompileOptions options, double tolerance) {
  if (!has_golden_gradients(cell)) return;  // autograd has none (tests/passes/gradient)
  options.device = {.kind = Device::Kind::cuda, .index = 0};
  const auto report = run_golden_gradients(cell, options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_LE(report->error, tolerance) << report->worst;
  EXPECT_GE(report->cases, 10);
}

TEST_P(GpuGradientGoldens, F32) {
  expect_gradients(GetParam(), {.dtype = DType::f32}, 1e-4);
}

TEST_P(GpuGradientGoldens, F32StepByStepInChunks) {
  expect_gradients(GetParam(),
                   {.dtype = DType::f32,
                    .chunk = 3,
                    .passes = PassSet::all().without(Pass::Resident).without(Pass::Loop)},
                   1e-4);
}

class GpuGradientGoldensOfScans : public testing::TestWithParam<const char*> {};

TEST_P(GpuGradientGoldensOfScans, F32InChunks) {
  expect_gradients(GetParam(), {.dtype = DType::f32, .chunk = 4, .strategy = Strategy::Scan}, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Cells, GpuGradientGoldensOfScans,
                         testing::Values("BidirectionalMinGRU", "HGRN", "LRU", "MinGRU", "MinLSTM",
                                         "QRNN", "RGLRU", "RWKV4", "S4D"),
                         [](const auto& cell) { return cell.param; });

INSTANTIATE_TEST_SUITE_P(Cells, GpuGradientGoldens, testing::ValuesIn(golden_cells()),
                         [](const auto& cell) { return cell.param; });

}  // namespace
}  // namespace rnnc::test
