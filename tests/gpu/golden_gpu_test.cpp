// The shipped cells against goldens from elsewhere on an NVIDIA GPU, and the character model.
#include <gtest/gtest.h>

#include "tests/support/cells/char_model.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/reference/nonfinite.h"

namespace rnnc::test {
namespace {

/// Step by step; recurrences with resident weights have their own tests.
CompileOptions on_gpu(DType dtype, int64_t chunk = 0) {
  return {.dtype = dtype,
          .device = {.kind = Device::Kind::cuda},
          .chunk = chunk,
          .passes = PassSet::all().without(Pass::Resident)};
}

void expect_goldens(const std::string& cell, DType dtype, int64_t chunk = 0) {
  const CompileOptions options = on_gpu(dtype, chunk);
  const auto report = run_golden_cases(golden_cases(cell, {dtype}), options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_GE(report->cases, 5);
  EXPECT_LE(report->error, golden_tolerance(dtype)) << report->worst;
  testing::Test::RecordProperty("error", fmt::format("{:.2e}", report->error));
}

class GpuGoldens : public testing::TestWithParam<std::string> {};

TEST_P(GpuGoldens, F32) {
  expect_goldens(GetParam(), DType::f32);
}
TEST_P(GpuGoldens, F32InChunks) {
  expect_goldens(GetParam(), DType::f32, 8);
}
TEST_P(GpuGoldens, Bf16) {
  expect_goldens(GetParam(), DType::bf16);
}
TEST_P(GpuGoldens, F16) {
  expect_goldens(GetParam(), DType::f16);
}

TEST_P(GpuGoldens, NanAndInfinityFlowThrough) {
  const auto differences = nonfinite_differences(GetParam(), on_gpu(DType::f32), 2e-5);
  ASSERT_TRUE(differences.has_value()) << differences.error().message;
  EXPECT_EQ(*differences, std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(Cells, GpuGoldens, testing::ValuesIn(golden_cells()),
                         [](const auto& cell) { return cell.param; });

TEST(GpuCharModel, PredictsLikePyTorch) {
  const auto bits = char_model_bits(on_gpu(DType::f32));
  ASSERT_TRUE(bits.has_value()) << bits.error().message;
  EXPECT_NEAR(*bits, char_model_torch_bits(), 1e-4);
}

}  // namespace
}  // namespace rnnc::test
