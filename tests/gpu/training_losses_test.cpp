// Training runs as examples/training does them, against PyTorch's losses in float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/gradients/training_losses.h"

namespace rnnc::test {
namespace {

/// A cell, the type of arrays, and whether params are f32 beside them.
using LossesCase = std::tuple<std::string, DType, bool>;
class GpuTrainingLosses : public testing::TestWithParam<LossesCase> {};

TEST_P(GpuTrainingLosses, EndAtTorchs) {
  const auto& [cell, dtype, f32_params] = GetParam();
  CompileOptions options{.dtype = dtype, .device = {.kind = Device::Kind::cuda, .index = 0}};
  if (f32_params) options.param_dtype = DType::f32;
  const auto losses = train_beside_torch(cell, options);
  ASSERT_TRUE(losses) << losses.error().message;
  EXPECT_NEAR(losses->actual.front(), losses->expected.front(), 0.01 * losses->expected.front());
  EXPECT_NEAR(losses->actual.back(), losses->expected.back(), 0.02 * losses->expected.back());
}

std::string name_of(const testing::TestParamInfo<LossesCase>& one) {
  const auto& [cell, dtype, f32_params] = one.param;
  return fmt::format("{}_{}{}", cell, to_string(dtype), f32_params ? "_f32_params" : "");
}

const auto kCells = testing::Values("LSTM", "GRU");
INSTANTIATE_TEST_SUITE_P(F32, GpuTrainingLosses,
                         testing::Combine(kCells, testing::Values(DType::f32),
                                          testing::Values(false)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Halves, GpuTrainingLosses,
                         testing::Combine(kCells, testing::Values(DType::bf16, DType::f16),
                                          testing::Bool()),
                         name_of);

}  // namespace
}  // namespace rnnc::test
