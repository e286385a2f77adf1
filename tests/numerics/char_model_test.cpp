#include "tests/support/cells/char_model.h"

#include <gtest/gtest.h>

#ifdef RNNC_WITH_CPU
namespace rnnc::test {
namespace {

TEST(CharModel, PredictsLikePyTorch) {
  const auto bits = char_model_bits({.threads = 1});
  ASSERT_TRUE(bits.has_value()) << bits.error().message;
  EXPECT_NEAR(*bits, char_model_torch_bits(), 1e-4);
}

}  // namespace
}  // namespace rnnc::test
#endif
