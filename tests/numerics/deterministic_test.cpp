// The C++ generator of test data against values from its Python twin.
#include "tests/support/reference/deterministic.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/reference/golden.h"

namespace rnnc::test {
namespace {

TEST(Deterministic, GivesPythonsValues) {
  const auto streams = nlohmann::json::parse(read_data("tests/goldens/deterministic.json"));
  ASSERT_EQ(streams.size(), 4u);
  for (const auto& stream : streams) {
    const auto expected = stream["values"].get<std::vector<double>>();
    ASSERT_EQ(expected.size(), 40u);
    const auto rounding = parse_dtype(stream["rounding"].get<std::string>());
    ASSERT_TRUE(rounding.has_value());
    EXPECT_EQ(
        deterministic_values(stream["name"].get<std::string>(), 40, stream["scale"].get<double>(),
                             *rounding, stream["around"].get<double>()),
        expected);
  }
}

TEST(Golden, SummaryIsPythons) {
  const auto golden = nlohmann::json::parse(read_data("tests/goldens/summary.json"));
  const auto tensor = deterministic_values("summary", golden["count"], 3, DType::f64);
  EXPECT_LE(error_of(summarise(tensor), golden["summary"].get<std::vector<double>>()), 1e-15);
}

TEST(Golden, SummarySeesEveryElement) {
  std::vector<double> tensor(1000);
  const std::vector<double> before = summarise(tensor);
  for (double& element : tensor) {
    element = 1;
    EXPECT_GT(error_of(summarise(tensor), before), 1e-6);
    element = 0;
  }
}

TEST(Golden, ErrorTellsNanAndInfinityApart) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(error_of({nan, infinity, 1}, {nan, infinity, 1}), 0);
  EXPECT_EQ(error_of({nan}, {0}), infinity);
  EXPECT_EQ(error_of({infinity}, {-infinity}), infinity);
  EXPECT_EQ(error_of({1}, {1, 2}), infinity);
  EXPECT_DOUBLE_EQ(error_of({1.5}, {1}), 0.25);
}

}  // namespace
}  // namespace rnnc::test
