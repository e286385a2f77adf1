#include "passes/graph/sequence_features.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "ir/graph/interpreter.h"
#include "ir/graph/text.h"
#include "ir/graph/verify.h"
#include "passes/build_plan.h"
#include "passes/graph/delays.h"
#include "passes/graph/pipeline.h"
#include "tests/passes/cases.h"
#include "tests/passes/graph/pass_check.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

TEST(Features, ChangeNothingThatIsComputedWithoutThem) {
  // Every sequence is T long and nothing is reset: what the interpreter takes the masks for.
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Graph before = any_random_graph(seed);
    Graph graph = before;
    run_delays(graph);
    run_resets(graph);
    run_lengths(graph);
    const Status status = verify(graph);
    ASSERT_TRUE(status) << status.error().message;
    expect_same_results(before, graph, seed);
    ASSERT_TRUE(run_pipeline(graph));
    expect_same_results(before, graph, seed);
  }
}

/// [T, B, ...] with steps from the last to the first.
std::vector<std::vector<double>> backwards(std::vector<std::vector<double>> arrays, int64_t steps) {
  for (std::vector<double>& array : arrays) {
    const size_t row = array.size() / static_cast<size_t>(steps);
    std::vector<double> turned;
    for (size_t t = static_cast<size_t>(steps); t-- > 0;) {
      turned.insert(turned.end(), array.begin() + t * row, array.begin() + (t + 1) * row);
    }
    array = turned;
  }
  return arrays;
}

TEST(InReverse, GivesTheResultsOfTheSequenceBackwards) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph = random_graph(seed, {.structure = seed % 2 != 0});
    run_delays(graph);
    constexpr int64_t kSteps = 4;
    InterpreterArgs args = random_args(graph, kSteps, /*batch=*/2, seed, true);
    const InterpreterResult expected = interpret(graph, args);
    run_in_reverse(graph);
    const Status status = verify(graph);
    ASSERT_TRUE(status) << status.error().message;
    args.inputs = backwards(args.inputs, kSteps);
    const InterpreterResult actual = interpret(graph, args);
    EXPECT_EQ(actual.outputs, backwards(expected.outputs, kSteps));
    EXPECT_EQ(actual.final_states, expected.final_states);
  }
}

/// A bidirectional cell over x, x one step before and a state two steps before; an array of states;
/// and a second layer in reverse of what the first gives.
constexpr char kEverything[] = R"(graph G() {
    input x: [3]
    param m: [3]
    param R: [3, 3]
    state h: [3]
    state g: [3] reversed
    state s: [2, 3]
    state k: [] reversed
    %0 = input x : [3]
    %1 = input x @ 1 : [3]
    %2 = state h @ 1 : [3]
    %3 = state h @ 2 : [3]
    %4 = param R : [3, 3]
    %5 = matmul %4, %2 : [3]
    %6 = add %5, %1 : [3]
    %7 = add %6, %3 : [3]
    %8 = add %7, %0 : [3]
    %9 = tanh %8 : [3]
    %10 = reverse %0 : [3]
    %11 = state g @ 1 : [3]
    %12 = state g @ 3 : [3]
    %13 = sub %11, %12 : [3]
    %14 = add %10, %13 : [3]
    %15 = sin %14 : [3]
    %16 = reverse %15 : [3]
    %17 = state s @ 1 : [2, 3]
    %18 = index %17 at 0 : [3]
    %19 = index %17 at 1 : [3]
    %20 = mul %18, %16 : [3]
    %21 = sub %19, %20 : [3]
    %22 = stack %9, %21 : [2, 3]
    %23 = concat %9, %21 : [6]
    %24 = reverse %23 : [6]
    %25 = mean %24 : []
    %26 = state k @ 1 : []
    %27 = sub %25, %26 : []
    %28 = reverse %27 : []
    %29 = param m : [3]
    %30 = exp %29 : [3]
    %31 = const -1 : []
    %32 = const 0.5 : []
    init h = %30
    next h = %9
    init g = %29
    next g = %15
    init s = %31
    next s = %22
    init k = %32
    next k = %27
    output a = %23
    output b = %28
    output c = %16
    output d = %29
  })";

/// Runs a plan with these features against plain runs of each sequence and segment. Inputs past a
/// sequence's end are NaN.
void expect_features(int64_t steps, const std::vector<int64_t>& lengths,
                     const std::vector<uint8_t>& resets, bool given) {
  SCOPED_TRACE(fmt::format("T {}, lengths [{}], resets [{}], {}", steps, fmt::join(lengths, ", "),
                           fmt::join(resets, ", "), given ? "given states" : "declared states"));
  const Graph graph = graph_from(kEverything);
  InterpreterArgs args = random_args(graph, steps, /*batch=*/3, 1, given);
  const InterpreterResult expected = interpret_sequences(graph, args, lengths, resets);
  for (size_t row = 0; !lengths.empty() && row < static_cast<size_t>(steps) * 3; ++row) {
    if (row / 3 < static_cast<size_t>(lengths[row % 3])) continue;
    for (size_t i = 0; i < 3; ++i) args.inputs[0][row * 3 + i] = std::nan("");
  }
  if (given) {  // implied states of given ones start as those do
    Graph delayed = graph;
    run_delays(delayed);
    for (size_t i = graph.states.size(); i < delayed.states.size(); ++i) {
      const std::optional<uint32_t> of = delayed.states[i].delay_of;
      args.initial_states.push_back(of ? args.initial_states[*of] : std::vector<double>());
    }
  }
  for (const int64_t chunk : {1, 2, 16}) {
    SCOPED_TRACE(fmt::format("chunk {}", chunk));
    const Result<Plan> plan = build_plan(graph, {.dtype = DType::f64,
                                                 .batch = 3,
                                                 .max_steps = 16,
                                                 .chunk = chunk,
                                                 .lengths = !lengths.empty(),
                                                 .resets = !resets.empty()});
    ASSERT_TRUE(plan) << plan.error().message;
    const InterpreterResult actual = execute_plan(*plan, args, {lengths, resets});
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      EXPECT_LE(error_of(actual.outputs[i], expected.outputs[i]), 1e-12) << "output " << i;
    }
    for (size_t i = 0; i < graph.states.size(); ++i) {
      EXPECT_LE(error_of(actual.final_states[i], expected.final_states[i]), 1e-12) << "state " << i;
    }
  }
}

TEST(Features, AreRunsOfEachSequenceAndSegmentByItself) {
  // Steps 0 and 1 of all, the last step, neighbours, and steps past the ends below.
  const std::vector<uint8_t> resets = {1, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1};
  for (const bool given : {false, true}) {
    expect_features(6, {}, {}, given);
    expect_features(6, {6, 3, 0}, {}, given);
    expect_features(1, {1, 0, 1}, {}, given);
    expect_features(6, {}, resets, given);
    expect_features(6, {4, 6, 2}, resets, given);
    expect_features(6, {0, 2, 5}, resets, given);
  }
}

}  // namespace
}  // namespace rnnc::test
