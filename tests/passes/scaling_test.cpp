// Cells of thousands of values are planned in little time, however these depend on each other.
#include <gtest/gtest.h>

#include <ctime>

#include "frontend/unit.h"
#include "passes/build_plan.h"

namespace rnnc::test {
namespace {

struct LargeCell {
  std::string name;
  std::string text;  // of a cell named Cell, of dim H
};

std::string repeated(int count, const std::string& line) {
  std::string text;
  for (int i = 1; i <= count; ++i) text += fmt::format(fmt::runtime(line), i);
  return text;
}

std::vector<LargeCell> large_cells() {
  return {
      {"LongDelay",
       "state h: [H]\nparam R: [H, H]\nh[t] = tanh(R @ h[t-1] + x[t]) + h[t-4096]\ny = h[t]\n"},
      {"ManyDelays", "y = x[t]\n" + repeated(2000, "y = y + x[t-{}]\n")},
      {"ArrayOfStates",
       "state s[2000]: [H]\nparam R: [H, H]\ny = x[t]\n"
       "for l in 0..2000 {\ns[l][t] = tanh(y + R @ s[l][t-1])\ny = s[l][t]\n}\n"},
      {"ChainOfStates", repeated(2000, "state s{}: [H]\n") + "y = x[t]\n" +
                            repeated(2000, "s{0}[t] = tanh(s{0}[t-1] + y)\ny = s{0}[t]\n")},
      {"StatesSideBySide",
       repeated(2000, "state s{}: [H]\n") + "y = x[t]\n" +
           repeated(2000, "s{0}[t] = tanh(s{0}[t-1] * x[t])\ny = y + s{0}[t-1]\n")},
      {"ManyParams",
       repeated(5000, "param b{}: [H]\n") + "y = x[t]\n" + repeated(5000, "y = y * b{}\n")},
      {"LongChain", "y = x[t]\nfor l in 0..10000 { y = tanh(y + 1) }\n"},
      {"ChainOfProducts", "param W: [H, H]\ny = x[t]\nfor l in 0..2000 { y = tanh(W @ y) }\n"},
      {"ChainOfReductions", "y = x[t]\nfor l in 0..5000 { y = y - mean(y) }\n"},
      {"ArrayOfWeights",
       "param W[2000]: [H, H]\nstate h: [H]\ny = x[t]\n"
       "for l in 0..2000 { y = y + tanh(W[l] @ h[t-1]) }\nh[t] = y\n"},
  };
}

class LargeCells : public testing::TestWithParam<LargeCell> {};

// Processor time, which other programs do not add to. Each takes a tenth of it or less.
TEST_P(LargeCells, ArePlannedQuickly) {
  constexpr double kMostSeconds = 2;
  Unit unit("large.rnn", "cell Cell[H](x: [H]) -> y {\n" + GetParam().text + "}\n");
  std::optional<Graph> graph = unit.lower("Cell", {});
  ASSERT_TRUE(graph.has_value()) << unit.render();
  graph->bind({{"H", 4}});
  for (const Machine& machine : {cpu_machine(4), h200_machine()}) {
    const std::clock_t start = std::clock();
    const Result<Plan> plan = build_plan(*graph, {.max_steps = 100, .machine = machine});
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_TRUE(plan.has_value()) << plan.error().message;
    EXPECT_LT(seconds, kMostSeconds) << machine.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LargeCells, testing::ValuesIn(large_cells()),
                         [](const auto& made) { return made.param.name; });

}  // namespace
}  // namespace rnnc::test
