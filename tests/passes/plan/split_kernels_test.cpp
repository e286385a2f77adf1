// Long kernels become several, which compute what the interpreter does.
#include "passes/plan/split_kernels.h"

#include <gtest/gtest.h>

#include "passes/build_plan.h"
#include "tests/support/cells/array_cells.h"
#include "tests/support/cells/long_cells.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/gradients/half_check.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

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
      check_halves(graph_of_turns(GetParam(), 500),
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
  const Graph graph = graph_of_turns(GetParam(), 20);
  const Result<Plan> plan = build_plan(graph, {.batch = 2, .max_steps = 5});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  Plan again = *plan;
  EXPECT_FALSE(run_split_kernels(again, cpu_machine(1)));
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
