#include "passes/plan/earlier_reads.h"

#include <gtest/gtest.h>

#include <functional>

#include "ir/plan/plan_parse.h"
#include "passes/build_plan.h"
#include "passes/gradient/differentiate.h"
#include "passes/graph/pipeline.h"
#include "tests/passes/cases.h"

namespace rnnc::test {
namespace {

/// A GRU's backward half, which is given the outputs: what it has of h[t-1] are those a step
/// earlier, for a total of h and, element by element, for the recurrence.
Plan gru_plan(DType dtype, PassSet passes = PassSet::all()) {
  Graph graph = load_case("gru", {{"H", 64}});
  RNNC_CHECK(run_pipeline(graph, {.training = true}), "a graph of text");
  DifferentiateOptions options = DifferentiateOptions::all(graph, {});
  options.outputs = true;
  Graph half = differentiate(graph, options).backward;
  RNNC_CHECK(run_simplifications(half), "a backward half");
  Result<Plan> plan = plan_graph(half, {.dtype = dtype,
                                        .batch = 3,
                                        .max_steps = 11,
                                        .chunk = 4,
                                        .passes = passes,
                                        .machine = h200_machine()});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

/// The only one.
RecurrenceLaunch& recurrence_of(Plan& plan) {
  for (Stage& stage : plan.stages) {
    if (is_resident(stage)) return std::get<RecurrenceLaunch>(stage.launches[0]);
  }
  RNNC_CHECK(false, "{}", to_string(plan));
}

int copies_of_earlier_steps(const Plan& plan) {
  int count = 0;
  for (const Stage& stage : plan.stages) {
    for (const Launch& launch : stage.launches) {
      if (std::holds_alternative<EarlierLaunch>(launch)) ++count;
    }
  }
  return count;
}

TEST(EarlierReads, OfARecurrence) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Plan plan = gru_plan(dtype);
    EXPECT_EQ(copies_of_earlier_steps(plan), 0);
    size_t reads = 0;
    for (const FusedLaunch& phase : recurrence_of(plan).phases) reads += phase.earlier.size();
    EXPECT_EQ(reads, 1u) << to_string(plan);
    const Result<Plan> parsed = parse_plan(to_string(plan));
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, plan);
  }
}

TEST(EarlierReads, NotWhereRecurrencesAreLaunches) {
  EXPECT_EQ(copies_of_earlier_steps(gru_plan(DType::f32, PassSet::all().without(Pass::Resident))),
            1);
}

TEST(EarlierReads, AreCopiedAheadAndOfTheCaller) {
  const Plan whole = gru_plan(DType::f32);
  const auto problem = [&whole](const std::function<void(Plan&, RecurrenceLaunch&)>& change) {
    Plan plan = whole;
    change(plan, recurrence_of(plan));
    const Status status = verify(plan);
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(problem([](Plan&, RecurrenceLaunch&) {}), "");
  EXPECT_NE(problem([](Plan&, RecurrenceLaunch& launch) {
              launch.tile.input_steps = 0;
            }).find("kernels load of an earlier step what is not copied ahead"),
            std::string::npos);
  EXPECT_NE(problem([](Plan& plan, RecurrenceLaunch& launch) {
              for (FusedLaunch& phase : launch.phases) {
                for (uint32_t i = 0; i < phase.accesses.size(); ++i) {
                  if (!plan.kernels[phase.kernel].arguments[i].written) continue;
                  phase.earlier = {i};
                  return;
                }
              }
            }).find("a step earlier is no sequence of the caller's"),
            std::string::npos);
}

}  // namespace
}  // namespace rnnc::test
