#include "passes/gradient/finite_differences.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/passes/cases.h"

namespace rnnc::test {
namespace {

/// Of y = |w|, with what is said to be its gradient.
DifferenceReport compare_abs(std::vector<double> w, std::vector<double> gradient,
                             const DifferenceOptions& options = {}) {
  const Graph graph = graph_from(fmt::format(R"(graph G {{
    input x: []
    param w: [{0}]
    %0 = param w : [{0}]
    %1 = abs %0 : [{0}]
    output y = %1
  }})",
                                             w.size()));
  GradientArgs args;
  args.forward = {.steps = 1, .batch = 1, .inputs = {{0}}, .params = {w}, .initial_states = {}};
  args.output_gradients = {std::vector<double>(w.size(), 1)};
  const auto run = [&](const InterpreterArgs& arrays) { return interpret(graph, arrays); };
  const auto reports =
      compare_with_differences(graph, args, {{}, {std::move(gradient)}, {}}, run, options);
  EXPECT_EQ(reports.size(), 1U);
  return reports.at(0);
}

TEST(FiniteDifferences, KinksAreListedWithBothSides) {
  const DifferenceReport report = compare_abs({1, 0, -2}, {1, 0, -1});
  EXPECT_EQ(report.compared, 2U);
  ASSERT_EQ(report.kinks.size(), 1U);
  EXPECT_EQ(report.kinks[0].element, 1U);
  EXPECT_EQ(report.kinks[0].gradient, 0);
  EXPECT_NEAR(report.kinks[0].below, -1, 1e-9);
  EXPECT_NEAR(report.kinks[0].above, 1, 1e-9);
  EXPECT_LE(report.error, 1e-9);
  EXPECT_DOUBLE_EQ(report.kink_share(), 1.0 / 3);
}

TEST(FiniteDifferences, OutsideOfBothSidesOfAKinkIsWrong) {
  EXPECT_LE(compare_abs({1, 0}, {1, -1}).error, 1e-9);
  const DifferenceReport report = compare_abs({1, 0}, {1, 1.5});
  EXPECT_NEAR(report.error, 0.5 / std::sqrt(1 + 1.5 * 1.5), 1e-3);
  EXPECT_EQ(report.worst, 1U);
  EXPECT_NEAR(report.difference, 1, 1e-9);
}

/// Of two widths that disagree, since a kink is near, narrower ones may agree.
TEST(FiniteDifferences, NearAKinkThereIsNone) {
  const DifferenceReport report = compare_abs({5e-5, 3e-6}, {1, 1});
  EXPECT_EQ(report.compared, 1U);
  ASSERT_EQ(report.kinks.size(), 1U);
  EXPECT_EQ(report.kinks[0].element, 1U);
}

TEST(FiniteDifferences, NoElementIsTriedTwice) {
  std::vector<double> w(20);
  std::vector<double> gradient(20, 0);
  const DifferenceReport report = compare_abs(w, gradient, {.elements = 15, .seed = 3});
  std::set<size_t> tried;
  for (const Kink& kink : report.kinks) tried.insert(kink.element);
  EXPECT_EQ(report.tried(), 15U);
  EXPECT_EQ(tried.size(), 15U);
}

}  // namespace
}  // namespace rnnc::test
