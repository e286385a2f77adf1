// Long kernels become several, which compute what the interpreter does.
#include "passes/plan/split_kernels.h"

#include <gtest/gtest.h>

#include "frontend/unit.h"
#include "passes/build_plan.h"
#include "tests/support/cells/array_cells.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/gradients/half_check.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

struct LongCell {
  std::string name;
  std::string text;  // of a cell named Cell, of dims N and H
  friend void PrintTo(const LongCell& cell, std::ostream* out) { *out << cell.name; }
};

std::vector<LongCell> long_cells() {
  return {
      // One value crosses each cut.
      {"Chain",
       "(x: [H]) -> y {\nstate h: [H]\nparam a, b: [H]\ny = x[t] + h[t-1]\n"
       "for i in 0..N { y = tanh(y * a) + b }\nh[t] = y\n"},
      // Values per row and per element, and reductions, which blocks of a row join.
      {"Reduced",
       "(x: [H], s: []) -> y {\nstate h: [H]\nparam a: [H]\ny = x[t] + h[t-1]\nz = s[t]\n"
       "for i in 0..N {\nz = tanh(0.5 * z + 0.3 * mean(y))\ny = 0.6 * y + 0.3 * z * a\n}\nh[t] = "
       "y\n"},
      // States in place, each read by a later piece than the one that has changed others.
      {"States",
       "(x: [H]) -> y {\nstate s[N]: [H]\ny = x[t]\n"
       "for i in 0..N {\ny = tanh(0.5 * y + 0.3 * s[i][t-1] + 0.3 * s[N - 1 - i][t-1])\n"
       "s[i][t] = 0.5 * y - 0.3 * s[N - 1 - i][t-1]\n}\n"},
      // Of params alone: before all steps, and their gradients after them.
      {"Params",
       "(x: [H]) -> y {\nstate h: [H]\nparam a[N]: [H]\nw = ones(H)\n"
       "for i in 0..N { w = tanh(0.9 * w + a[N - 1 - i] * a[i]) }\nh[t] = w * h[t-1] + x[t]\n"
       "y = h[t]\n"},
      {"Matrices",
       "(x: [H]) -> y {\nstate h: [H]\nparam A[N]: [H, H]\nB = A[0]\n"
       "for i in 1..N { B = tanh(0.9 * B + A[N - i] * A[i]) }\nh[t] = tanh(B @ h[t-1] + x[t])\n"
       "y = h[t]\n"},
  };
}

Graph graph_of(const LongCell& cell, int64_t turns) {
  const DimBindings dims = {{"N", turns}, {"H", 5}};
  Unit unit("cell.rnn", "cell Cell[N, H]" + cell.text + "}\n");
  const std::optional<Graph> made = unit.lower("Cell", dims);
  RNNC_CHECK(made.has_value(), "{}", unit.render());
  Graph graph = *made;
  graph.bind(dims);
  return graph;
}

Result<InterpreterResult> run(const Plan& plan, const InterpreterArgs& args,
                              const SequenceArgs& sequences) {
  for (const Stage& stage : plan.stages) {
    for (const Launch& launch : stage.launches) {
      const auto* elementwise = std::get_if<ElementwiseLaunch>(&launch);
      if (elementwise == nullptr || !plan.kernels[elementwise->kernel].loops.empty()) continue;
      EXPECT_LE(plan.kernels[elementwise->kernel].body.size(), kMostInstructions);
      EXPECT_LT(elementwise->accesses.size(), 2 * kMostArguments);
    }
  }
  return execute_plan(plan, args, sequences);
}

class SplitKernels : public testing::TestWithParam<LongCell> {};

TEST_P(SplitKernels, ComputeTheSame) {
  uint64_t seed = 0;
  for (const Machine& machine : {cpu_machine(4), h200_machine()}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      check_halves(graph_of(GetParam(), 500),
                   {.steps = 5,
                    .batch = 2,
                    .chunk = static_cast<int64_t>(1 + seed % 4),
                    .seed = ++seed,
                    .dtype = dtype,
                    .lengths = seed % 2 == 0,
                    .resets = seed % 2 == 1,
                    .given_states = true,
                    .machine = machine},
                   run);
    }
  }
}

TEST_P(SplitKernels, ShortOnesStay) {
  const Graph graph = graph_of(GetParam(), 20);
  const Result<Plan> plan = build_plan(graph, {.batch = 2, .max_steps = 5});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  Plan again = *plan;
  EXPECT_FALSE(run_split_kernels(again));
  EXPECT_EQ(again, *plan);
}

INSTANTIATE_TEST_SUITE_P(All, SplitKernels, testing::ValuesIn(long_cells()),
                         [](const auto& made) { return made.param.name; });

TEST(SplitKernelsOfNests, ComputeTheSame) {
  for (uint64_t seed = 3; seed < 40; seed += 4) {
    SCOPED_TRACE(fmt::format("seed {}:\n{}", seed, random_nest_cell(seed)));
    check_halves(random_nest_graph(seed, 9, 13, 5),
                 {.steps = 4,
                  .batch = 2,
                  .chunk = 3,
                  .seed = seed,
                  .dtype = DType::f32,
                  .machine = seed % 8 == 3 ? cpu_machine(4) : h200_machine()},
                 run);
  }
}

}  // namespace
}  // namespace rnnc::test
