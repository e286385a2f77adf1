// As launches that keep their weights on a GPU's chip, recurrences compute what the interpreter
// does: every shipped cell and network, run by the plain executor of plans. And all of class block
// or dense are such launches.
#include <gtest/gtest.h>

#include "passes/build_plan.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/cells/sequence_cases.h"
#include "tests/support/reference/plan_executor.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

constexpr int64_t kSteps = 7;
constexpr int64_t kBatch = 3;
constexpr int64_t kManyRows = 300;  // of which a library's products are faster than rnnc's own

/// A shipped cell of a small, odd size.
Graph shipped_graph(const std::string& cell) {
  for (const GoldenCase& golden_case : golden_cases(cell, {DType::bf16})) {
    if (golden_case.size.name != "T7_B3_H7") continue;
    Result<Graph> graph = golden_graph(golden_case);
    RNNC_CHECK(graph.has_value(), "{}", graph.error().message);
    return *std::move(graph);
  }
  RNNC_CHECK(false, "{} has no small case", cell);
}

Result<Plan> plan_of(const Graph& graph, DType dtype, const Sequences& sequences) {
  return build_plan(graph, {.dtype = dtype,
                            .batch = sequences.batch,
                            .max_steps = sequences.steps,
                            .chunk = 3,
                            .lengths = !sequences.lengths.empty(),
                            .resets = !sequences.resets.empty(),
                            .passes = PassSet::all(),
                            .machine = h200_machine()});
}

class ResidentCells : public testing::TestWithParam<std::string> {};

TEST_P(ResidentCells, ComputeWhatTheInterpreterDoes) {
  const Graph graph = shipped_graph(GetParam());
  for (uint32_t seed = 0; seed < 4; ++seed) {
    const Sequences sequences =
        random_sequences(kSteps, kBatch, {.lengths = seed % 2 == 1, .resets = seed / 2 == 1},
                         /*given_states=*/seed % 2 == 0, seed);
    const InterpreterArgs args = sequence_arguments(graph, sequences, seed);
    const InterpreterResult expected =
        interpret_sequences(graph, args, sequences.lengths, sequences.resets);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(fmt::format("{}, lengths [{}], resets [{}]", to_string(dtype),
                               fmt::join(sequences.lengths, " "),
                               fmt::join(sequences.resets, " ")));
      const Result<Plan> plan = plan_of(graph, dtype, sequences);
      ASSERT_TRUE(plan) << plan.error().message;
      const InterpreterResult actual =
          execute_plan(*plan, args, {sequences.lengths, sequences.resets});
      EXPECT_LE(error_of_results(actual, expected), golden_tolerance(dtype));
    }
  }
}

TEST_P(ResidentCells, AreAllOfClassBlockOrDense) {
  const Graph graph = shipped_graph(GetParam());
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t batch : {kBatch, kManyRows}) {
      SCOPED_TRACE(fmt::format("{}, batch {}", to_string(dtype), batch));
      const Result<Plan> plan = plan_of(graph, dtype, {.steps = kSteps, .batch = batch});
      ASSERT_TRUE(plan) << plan.error().message;
      for (const Stage& stage : plan->stages) {
        if (stage.recurrence < RecurrenceClass::Block) continue;
        EXPECT_TRUE(std::holds_alternative<RecurrenceLaunch>(stage.launches[0]))
            << stage.name << ": " << stage.reason;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ResidentCells, testing::ValuesIn(golden_cells()),
                         [](const auto& cell) { return cell.param; });

}  // namespace
}  // namespace rnnc::test
