#include "tests/support/reference/nonfinite.h"

#include <gtest/gtest.h>

#include "tests/support/cells/golden_cases.h"

#ifdef RNNC_WITH_CPU
namespace rnnc::test {
namespace {

class NonFinite : public testing::TestWithParam<std::string> {};

void expect_like_interpreter(const std::string& cell, DType dtype, double tolerance) {
  const auto differences = nonfinite_differences(cell, {.dtype = dtype, .threads = 1}, tolerance);
  ASSERT_TRUE(differences.has_value()) << differences.error().message;
  EXPECT_EQ(*differences, std::vector<std::string>{});
}

TEST_P(NonFinite, FlowsThroughF64) {
  expect_like_interpreter(GetParam(), DType::f64, 1e-12);
}
TEST_P(NonFinite, FlowsThroughF32) {
  expect_like_interpreter(GetParam(), DType::f32, 2e-5);
}

INSTANTIATE_TEST_SUITE_P(Cells, NonFinite, testing::ValuesIn(golden_cells()),
                         [](const auto& cell) { return cell.param; });

}  // namespace
}  // namespace rnnc::test
#endif
