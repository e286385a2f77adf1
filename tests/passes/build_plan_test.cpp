#include "passes/build_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/passes/cases.h"

namespace rnnc::test {
namespace {

std::string error(const Graph& graph, const PlanOptions& options = {}) {
  const Result<Plan> plan = build_plan(graph, options);
  return plan ? "no error" : plan.error().message;
}

int64_t chunk(int64_t batch, int64_t max_steps, int64_t given = 0) {
  return build_plan(load_case("elman"), {.batch = batch, .max_steps = max_steps, .chunk = given})
      ->chunk;
}

TEST(BuildPlan, ChunksAreChosenUnlessGivenAndNoLongerThanTheSequence) {
  EXPECT_EQ(chunk(1, 10000), 256);
  EXPECT_EQ(chunk(16, 10000), 256);
  EXPECT_EQ(chunk(16, 7), 7);
  EXPECT_EQ(chunk(16, 10000, 100), 100);
  EXPECT_EQ(chunk(16, 7, 100), 7);
}

// Of two equal vectors one is read, once that is found, and the other has no place.
TEST(BuildPlan, HasNoLaunchesThatStoreNothing) {
  const Graph graph = graph_from(R"(graph G() {
    input x: [2]
    %0 = input x : [2]
    %1 = vector 0.5 : [1]
    %2 = concat %0, %1 : [3]
    %3 = vector 0.5 : [1]
    %4 = concat %0, %3 : [3]
    output y = %2
    output z = %4
  })");
  const Result<Plan> plan = build_plan(graph, {.passes = PassSet::none().with(Pass::Cse)});
  ASSERT_TRUE(plan) << plan.error().message;
  int vectors = 0;
  for (const Stage& stage : plan->stages) {
    for (const Launch& launch : stage.launches) {
      const auto* elementwise = std::get_if<ElementwiseLaunch>(&launch);
      if (elementwise == nullptr) continue;
      EXPECT_FALSE(elementwise->accesses.empty());
      vectors += stage.domain == Domain::Once ? 1 : 0;
    }
  }
  EXPECT_EQ(vectors, 1);
}

TEST(BuildPlan, RefusesSizesThatMakeNoSense) {
  const Graph graph = load_case("elman");
  EXPECT_EQ(error(graph, {.batch = 0}), "batch must be at least 1, got 0");
  EXPECT_EQ(error(graph, {.max_steps = 0}), "steps must be at least 1, got 0");
  EXPECT_EQ(error(graph, {.chunk = -1}), "chunk must not be negative, got -1");
  EXPECT_EQ(error(graph, {.batch = int64_t{1} << 60}),
            "batch 1152921504606846976 needs more memory than any device has");
}

TEST(BuildPlan, RefusesWhatLooksAtTheAxesOfMatricesThatVaryOverTime) {
  const auto message = [](const char* what) {
    return fmt::format(
        "'{}' of a value of shape [2, 3]: matrices that vary over time are only "
        "stored, indexed and changed element by element so far",
        what);
  };
  const auto error_of = [](const char* operation) {
    return error(graph_from(fmt::format(R"(graph G() {{
      input x: [2, 3]
      param v: [3]
      %0 = input x : [2, 3]
      %1 = param v : [3]
      %2 = {}
      %3 = index %2 at 0 : []
      output y = %3
    }})",
                                        operation)));
  };
  EXPECT_EQ(error_of("sum %0 : [2]"), message("sum"));
  EXPECT_EQ(error_of("matmul %0, %1 : [2]"), message("matmul"));
  EXPECT_EQ(error(graph_from(R"(graph G() {
    input x: [2, 3]
    %0 = input x : [2, 3]
    %1 = transpose %0 : [3, 2]
    output y = %1
  })")),
            message("transpose"));
}

/// How many launches of a kind the stage has.
template <typename L>
int64_t count(const Stage& stage) {
  return std::ranges::count_if(stage.launches,
                               [](const Launch& l) { return std::holds_alternative<L>(l); });
}

/// The first recurrence.
const Stage& recurrence_of(const Plan& plan) {
  const auto found = std::ranges::find_if(
      plan.stages, [](const Stage& s) { return s.recurrence != RecurrenceClass::None; });
  RNNC_CHECK(found != plan.stages.end(), "{} has no recurrence", plan.name);
  return *found;
}

TEST(BuildPlan, RecurrencesAreFewLaunches) {
  struct Expected {
    const char* name;
    int64_t fused, loops, gemms, kernels;
  };
  for (const auto& [name, fused, loops, gemms, kernels] :
       {Expected{"elman", 1, 0, 0, 0}, Expected{"lstm", 1, 0, 0, 0}, Expected{"gru", 1, 0, 0, 0},
        Expected{"gru_reset_before", 2, 0, 0, 0}, Expected{"min_gru", 0, 1, 0, 0},
        Expected{"min_lstm", 0, 1, 0, 0}, Expected{"ind_rnn", 0, 1, 0, 0},
        Expected{"layer_norm_lstm", 0, 0, 1, 1}, Expected{"projected_lstm", 2, 0, 0, 0},
        Expected{"blocks", 1, 0, 0, 0}, Expected{"state_arrays", 2, 0, 0, 0},
        Expected{"transposed_weights", 1, 0, 0, 0}}) {
    SCOPED_TRACE(name);
    const Plan plan = *build_plan(load_case(name), {.batch = 2, .max_steps = 50});
    const Stage& recurrence = recurrence_of(plan);
    EXPECT_EQ(count<FusedLaunch>(recurrence), fused);
    EXPECT_EQ(count<LoopLaunch>(recurrence), loops);
    EXPECT_EQ(count<GemmLaunch>(recurrence), gemms);
    EXPECT_EQ(count<ElementwiseLaunch>(recurrence), kernels);
    const auto sequence = std::ranges::find(plan.stages, Domain::Sequence, &Stage::domain);
    EXPECT_EQ(count<GemmLaunch>(*sequence), 1);
  }
}

/// Of many rows a library's product is faster than rnnc's own, which has the work behind it in its
/// launch.
TEST(BuildPlan, OnAGpuStepsOfManyRowsAreALibrarysProducts) {
  const auto stage_of = [](int64_t batch, DType dtype) {
    const PlanOptions options = {.dtype = dtype,
                                 .batch = batch,
                                 .max_steps = 50,
                                 .passes = PassSet::all().without(Pass::Resident),
                                 .machine = h200_machine()};
    const Graph graph = load_case("lstm", {{"I", 1024}, {"H", 1024}});
    return recurrence_of(*build_plan(graph, options));
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Stage few = stage_of(8, dtype);
    EXPECT_EQ(count<FusedLaunch>(few), 1);
    EXPECT_EQ(count<GemmLaunch>(few), 0);
    const Stage many = stage_of(128, dtype);
    EXPECT_EQ(count<FusedLaunch>(many), 0);
    EXPECT_EQ(count<GemmLaunch>(many), 1);
    EXPECT_EQ(count<ElementwiseLaunch>(many), 1);
  }
}

TEST(BuildPlan, LengthsAddNoLaunchToARecurrence) {
  const Plan plan = *build_plan(load_case("lstm"), {.batch = 2, .max_steps = 50, .lengths = true});
  EXPECT_EQ(recurrence_of(plan).launches.size(), 1u);
}

TEST(BuildPlan, RecurrencesSayOfWhatClassTheyAreAndWhy) {
  const Plan plan = *build_plan(load_case("gru_reset_before"), {.batch = 2, .max_steps = 50});
  const Stage& recurrence = recurrence_of(plan);
  EXPECT_EQ(recurrence.recurrence, RecurrenceClass::Dense);
  EXPECT_EQ(recurrence.reason, "the product with R_r [4, 4] mixes its units");
  EXPECT_EQ(recurrence.phases, 2);
}

TEST(BuildPlan, EachSweepHasItsStagesAndMasks) {
  const Plan plan = *build_plan(load_case("stacked_bidirectional"),
                                {.batch = 2, .max_steps = 50, .lengths = true, .resets = true});
  EXPECT_EQ(plan.sweeps, 3u);
  std::vector<int64_t> masks(plan.sweeps, 0);
  for (const Stage& stage : plan.stages) masks[stage.sweep] += count<MaskLaunch>(stage);
  // Valid and Reset, of values that run forward and in reverse; the last sweep has no state.
  EXPECT_EQ(masks, (std::vector<int64_t>{4, 4, 1}));
}

TEST(BuildPlan, ImpliedStatesComeBehindTheGraphsOwn) {
  const Plan plan = *build_plan(load_case("delays"), {.batch = 2, .max_steps = 50});
  std::vector<std::string> names;
  for (const StatePlan& state : plan.states) names.push_back(state.name);
  EXPECT_EQ(names, (std::vector<std::string>{"h", "u", "v", "x@1", "x@2", "h@2", "h@3"}));
  EXPECT_FALSE(plan.states[3].delay_of);
  EXPECT_FALSE(plan.states[4].delay_of);  // what came before a given input is not known: zero
  EXPECT_EQ(plan.states[6].delay_of, 0u);
}

TEST(BuildPlan, LayersOfOneSizeShareTheirKernel) {
  const Plan plan = *build_plan(load_case("stacked_lstm"), {.batch = 2, .max_steps = 50});
  std::vector<uint32_t> kernels;
  for (const Stage& stage : plan.stages) {
    if (stage.domain != Domain::Step) continue;
    kernels.push_back(std::get<FusedLaunch>(stage.launches.back()).kernel);
  }
  EXPECT_EQ(kernels, (std::vector<uint32_t>{0, 0, 0}));
}

TEST(BuildPlan, StatesNobodyReadsStillHaveFinalValues) {
  const Graph graph = graph_from(R"(graph G() {
    input x: [3]
    state last: [3]
    %0 = input x : [3]
    %1 = const 0 : []
    init last = %1
    next last = %0
  })");
  const Plan plan = *build_plan(graph, {.batch = 2, .max_steps = 50});
  ASSERT_EQ(plan.states.size(), 1u);
  EXPECT_EQ(plan.states[0].write_final.accesses[0].delay, 1u);
}

}  // namespace
}  // namespace rnnc::test
