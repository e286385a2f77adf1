/// Training runs as examples/training does them, against PyTorch's losses in float64.
#include <gtest/gtest.h>

#include "tests/support/gradients/training_losses.h"

namespace rnnc::test {
namespace {

class Training : public testing::TestWithParam<std::string> {};

TEST_P(Training, GivesTorchsLosses) {
  const auto losses = train_beside_torch(GetParam(), {.dtype = DType::f64});
  ASSERT_TRUE(losses) << losses.error().message;
  for (size_t step = 0; step < losses->expected.size(); ++step) {
    EXPECT_NEAR(losses->actual[step], losses->expected[step], 1e-9 * losses->expected[step])
        << "step " << step + 1;
  }
}

TEST_P(Training, EndsAtTorchsLossInF32) {
  const auto losses = train_beside_torch(GetParam(), {.dtype = DType::f32});
  ASSERT_TRUE(losses) << losses.error().message;
  EXPECT_NEAR(losses->actual.back(), losses->expected.back(), 0.02 * losses->expected.back());
}

INSTANTIATE_TEST_SUITE_P(Cells, Training, testing::Values("LSTM", "GRU"),
                         [](const auto& cell) { return cell.param; });

}  // namespace
}  // namespace rnnc::test
