// Whatever passes a plan is built with, it computes what the interpreter does: every shipped cell
// and network, with each pass left out, each two, and random subsets.
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

#include "passes/build_plan.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/cells/sequence_cases.h"
#include "tests/support/cells/sequence_graphs.h"
#include "tests/support/kept_kernels.h"
#include "tests/support/reference/interpreter_run.h"
#include "tests/support/reference/plan_executor.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

constexpr int64_t kSteps = 7;
constexpr int64_t kBatch = 3;
constexpr int kRandomSubsets = 64;

PassSet random_subset(std::mt19937_64& random) {
  PassSet passes = PassSet::none();
  for (const PassInfo& info : all_passes()) {
    if (random() % 2 == 0) passes = passes.with(info.pass);
  }
  return passes;
}

/// All, none, each off, each two off, and random ones.
std::vector<PassSet> subsets() {
  std::vector<PassSet> result = {PassSet::all(), PassSet::none()};
  for (const PassInfo& first : all_passes()) {
    const PassSet without = PassSet::all().without(first.pass);
    result.push_back(without);
    for (const PassInfo& second : all_passes()) {
      if (first.pass < second.pass) result.push_back(without.without(second.pass));
    }
  }
  std::mt19937_64 random(4);
  for (int i = 0; i < kRandomSubsets; ++i) result.push_back(random_subset(random));
  return result;
}

struct Subject {
  Graph graph;
  InterpreterArgs args;
};

std::vector<std::vector<double>> values_of(const std::vector<NamedArray>& arrays) {
  std::vector<std::vector<double>> values;
  for (const NamedArray& array : arrays) values.push_back(array.array.to_doubles());
  return values;
}

/// A shipped cell of a small size; of a network three layers.
Subject shipped(const std::string& cell) {
  for (GoldenCase& golden_case : golden_cases(cell, {DType::bf16})) {
    if (golden_case.size.name != "T7_B3_H7" || !golden_case.size.given_states) continue;
    DimBindings& dims = golden_case.size.dims;
    if (dims.contains("L")) dims["L"] = 3;
    Result<Graph> graph = golden_graph(golden_case);
    RNNC_CHECK(graph.has_value(), "{}", graph.error().message);
    const RunArgs args = golden_arguments(*graph, golden_case);
    return {*std::move(graph),
            {.steps = kSteps,
             .batch = kBatch,
             .inputs = values_of(args.inputs),
             .params = values_of(args.params),
             .initial_states = values_of(args.initial_states)}};
  }
  RNNC_CHECK(false, "{} has no small case", cell);
}

/// What happens to the sequences, by turns; the same for the same number.
Sequences sequences_of(size_t number) {
  const SequenceFeatures features = {.lengths = number % 3 != 0, .resets = number % 3 == 2};
  return random_sequences(kSteps, kBatch, features, /*given_states=*/true,
                          static_cast<uint32_t>(number % 3));
}

void expect_same(const InterpreterResult& actual, const InterpreterResult& expected,
                 double tolerance) {
  EXPECT_LE(error_of_results(actual, expected), tolerance);
}

/// A number for each name, so that what goes by turns meets other subsets in other graphs.
size_t number_of(const std::string& name) {
  return std::accumulate(name.begin(), name.end(), size_t{0});
}

/// Plans for every subset, run step by literal step. Subsets that make a plan that was seen are
/// passed over.
void check_plans(const Graph& graph, const InterpreterArgs& args, size_t first) {
  std::vector<InterpreterResult> expected;
  for (size_t i = 0; i < 3; ++i) {
    const Sequences sequences = sequences_of(i);
    expected.push_back(interpret_sequences(graph, args, sequences.lengths, sequences.resets));
  }
  std::set<std::string> seen;
  const std::vector<PassSet> sets = subsets();
  for (size_t set = 0; set < sets.size(); ++set) {
    const size_t i = first + set;
    const Sequences sequences = sequences_of(i);
    const DType dtype = i % 5 == 4 ? DType::bf16 : DType::f64;
    const int64_t chunk = 2 + static_cast<int64_t>(i % 2);
    SCOPED_TRACE(fmt::format("--passes {}, {}, chunk {}, lengths [{}], resets [{}]",
                             sets[set].to_string(), to_string(dtype), chunk,
                             fmt::join(sequences.lengths, " "), fmt::join(sequences.resets, " ")));
    const Result<Plan> plan = build_plan(graph, {.dtype = dtype,
                                                 .batch = kBatch,
                                                 .max_steps = kSteps,
                                                 .chunk = chunk,
                                                 .lengths = !sequences.lengths.empty(),
                                                 .resets = !sequences.resets.empty(),
                                                 .passes = sets[set]});
    ASSERT_TRUE(plan) << plan.error().message;
    if (!seen.insert(fmt::format("{} {}", i % 3, to_string(*plan))).second) continue;
    const InterpreterResult actual =
        execute_plan(*plan, args, {sequences.lengths, sequences.resets});
    expect_same(actual, expected[i % 3], dtype == DType::f64 ? 1e-10 : golden_tolerance(dtype));
    if (testing::Test::HasFailure()) return;
  }
}

class PassSubsets : public testing::TestWithParam<std::string> {};

TEST_P(PassSubsets, OfShippedCellsGiveTheInterpretersResults) {
  const Subject subject = shipped(GetParam());
  check_plans(subject.graph, subject.args, number_of(GetParam()));
}

#ifdef RNNC_WITH_CPU
void check_cpu(const Graph& graph, const InterpreterArgs& args, PassSet passes, size_t number) {
  SCOPED_TRACE(fmt::format("--passes {}", passes.to_string()));
  const Sequences sequences = sequences_of(number);
  Result<Program> program = Program::compile(
      graph, with_kept_kernels(
                 {.threads = 1 + static_cast<int>(number % 2), .chunk = 2, .passes = passes}));
  ASSERT_TRUE(program) << program.error().message;
  const Result<RunResult> result =
      Runner(*program).run(named_args(graph, args, sequences.lengths, sequences.resets));
  ASSERT_TRUE(result) << result.error().message;
  expect_same({values_of(result->outputs), values_of(result->final_states)},
              interpret_sequences(graph, args, sequences.lengths, sequences.resets),
              golden_tolerance(DType::f32));
}

TEST_P(PassSubsets, OfShippedCellsRunOnTheCpu) {
  const Subject subject = shipped(GetParam());
  const size_t number = number_of(GetParam());
  std::mt19937_64 random(number);
  check_cpu(subject.graph, subject.args, PassSet::none(), number);
  check_cpu(subject.graph, subject.args, random_subset(random), number + 1);
}
#endif

INSTANTIATE_TEST_SUITE_P(Cells, PassSubsets, testing::ValuesIn(golden_cells()),
                         [](const auto& cell) { return cell.param; });

/// Graphs with delays, blocks, arrays and layers in reverse.
class PassSubsetsOfGraphs : public testing::TestWithParam<std::string> {};

TEST_P(PassSubsetsOfGraphs, GiveTheInterpretersResults) {
  const Graph graph = sequence_graph(GetParam());
  check_plans(graph, sequence_arguments(graph, sequences_of(0), 1), number_of(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Graphs, PassSubsetsOfGraphs, testing::ValuesIn(sequence_graphs()),
                         [](const auto& graph) { return graph.param; });

}  // namespace
}  // namespace rnnc::test
