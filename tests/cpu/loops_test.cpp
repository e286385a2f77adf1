// Loops over time whose steps are within generated code, against the interpreter: odd sizes, initial
// states, delays, chunks, threads.
#include <gtest/gtest.h>

#include <array>

#include "codegen/cpu/cpu_code.h"
#include "codegen/cpu/kernel_cost.h"
#include "frontend/unit.h"
#include "passes/build_plan.h"
#include "passes/graph/pipeline.h"
#include "tests/cpu/program_run.h"
#include "tests/support/cells/loop_cells.h"
#include "tests/support/cells/random_graph.h"

namespace rnnc::test {
namespace {

class Loops : public testing::TestWithParam<const char*> {};

TEST_P(Loops, OfOddSizes) {
  for (const int64_t size : {1, 3, 7, 17, 33, 100, 300}) {
    const Graph graph = loop_cell(GetParam(), size);
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const auto& [batch, steps, chunk, threads] : {std::array<int64_t, 4>{1, 1, 0, 1},
                                                         {3, 70, 0, 1},
                                                         {3, 70, 16, 2},
                                                         {1, 600, 0, 3},
                                                         {5, 300, 130, 3}}) {
        CpuProgram program(graph,
                           {.dtype = dtype, .threads = static_cast<int>(threads), .chunk = chunk},
                           batch, steps);
        const InterpreterArgs args = random_args(graph, steps, batch, 1, true);
        EXPECT_LE(worst_error(program.run(args), interpret(graph, args)),
                  dtype == DType::f32 ? 3e-5 : 1e-12)
            << "H " << size << ", B " << batch << ", T " << steps << ", chunk " << chunk << " in "
            << to_string(dtype);
      }
    }
  }
}

/// All steps are in a function of their own, and no kernel is called at each.
TEST_P(Loops, AreInGeneratedCode) {
  Graph graph = loop_cell(GetParam(), 40);
  ASSERT_TRUE(run_pipeline(graph).has_value());
  const Result<Plan> plan = build_plan(graph, {.batch = 2, .max_steps = 50});
  ASSERT_TRUE(plan.has_value());
  const std::string code = *emit_llvm(*plan);
  for (size_t stage = 0; stage < plan->stages.size(); ++stage) {
    const auto* loop = std::get_if<LoopLaunch>(&plan->stages[stage].launches[0]);
    if (loop == nullptr) continue;
    EXPECT_NE(code.find(fmt::format("define void @loop_{}(", stage)), std::string::npos);
    EXPECT_EQ(code.find(fmt::format("define void @kernel_{}(", loop->kernel)), std::string::npos);
    return;
  }
  FAIL() << "no loop in the plan";
}

size_t vectors_at_once(const std::string& step) {
  Unit unit("cell.rnn", "cell Cell[H](x: [H]) -> h {\nstate h: [H]\nparam u: [H]\n" + step + "}\n");
  Graph graph = unit.lower("Cell", {}).value();
  graph.bind({{"H", 40}});
  const Plan plan = build_plan(graph, {.batch = 2, .max_steps = 50}).value();
  const auto& loop = std::get<LoopLaunch>(plan.stages.at(0).launches.at(0));
  return rnnc::vectors_at_once(plan.kernels[loop.kernel], loop.carries);
}

// Where a step waits for the one before it, other vectors' work is done meanwhile.
TEST(VectorsAtOnce, AreMoreWhereStepsWait) {
  EXPECT_EQ(vectors_at_once("h[t] = tanh(u * tanh(u * h[t-1]) + x[t])\n"), 4u);
  EXPECT_EQ(vectors_at_once("a = tanh(u * x[t])\nh[t] = tanh(a * h[t-1]) + tanh(a + u)\n"), 2u);
  EXPECT_EQ(vectors_at_once("a = tanh(tanh(tanh(u * x[t])))\n"
                            "h[t] = tanh(a) * h[t-1] + a\n"),
            1u);
}

INSTANTIATE_TEST_SUITE_P(Cells, Loops,
                         testing::Values("Gate", "Own", "Pair", "Late", "Rule", "Slots"),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace rnnc::test
