// Training runs as examples/training does them, against PyTorch's losses in float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/gradients/training_losses.h"

namespace rnnc::test {
namespace {

using LossesCase = std::tuple<std::string, DType>;
class GpuTrainingLosses : public testing::TestWithParam<LossesCase> {};

TEST_P(GpuTrainingLosses, EndAtTorchs) {
  const auto& [cell, dtype] = GetParam();
  const auto losses = train_beside_torch(
      cell, {.dtype = dtype, .device = {.kind = Device::Kind::cuda, .index = 0}});
  ASSERT_TRUE(losses) << losses.error().message;
  EXPECT_NEAR(losses->actual.front(), losses->expected.front(), 0.01 * losses->expected.front());
  EXPECT_NEAR(losses->actual.back(), losses->expected.back(), 0.02 * losses->expected.back());
}

INSTANTIATE_TEST_SUITE_P(All, GpuTrainingLosses,
                         testing::Combine(testing::Values("LSTM", "GRU"),
                                          testing::Values(DType::f32, DType::bf16, DType::f16)),
                         [](const auto& one) {
                           return fmt::format("{}_{}", std::get<std::string>(one.param),
                                              to_string(std::get<DType>(one.param)));
                         });

}  // namespace
}  // namespace rnnc::test
