// Plans compute what the interpreter does, run by the plain executor of tests/support.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "passes/build_plan.h"
#include "tests/passes/cases.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-10;
    case DType::f32:
      return 2e-5;
    case DType::bf16:
      return 5e-2;
    case DType::f16:
    case DType::i32:
      break;
  }
  return 1e-2;
}

Plan plan_of(const Graph& graph, DType dtype, int64_t batch, int64_t chunk,
             const SequenceArgs& sequences = {}, bool resident = false) {
  Result<Plan> plan = build_plan(graph, {.dtype = dtype,
                                         .batch = batch,
                                         .max_steps = 1000,
                                         .chunk = chunk,
                                         .lengths = !sequences.lengths.empty(),
                                         .resets = !sequences.resets.empty(),
                                         .passes = PassSet::all(),
                                         .machine = resident ? h200_machine() : Machine{}});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

/// Lengths from 0 to T and resets at about one step in four, where asked for.
SequenceArgs random_sequences(const InterpreterArgs& args, uint64_t seed, bool lengths,
                              bool resets) {
  std::mt19937_64 engine(seed);
  SequenceArgs sequences;
  const auto steps = static_cast<uint64_t>(args.steps);
  for (int64_t b = 0; lengths && b < args.batch; ++b) {
    sequences.lengths.push_back(static_cast<int64_t>(engine() % (steps + 1)));
  }
  for (int64_t i = 0; resets && i < args.steps * args.batch; ++i) {
    sequences.resets.push_back(engine() % 4 == 0 ? 1 : 0);
  }
  return sequences;
}

/// The plan may have implied states behind those of the graph.
double greatest_error(const std::vector<std::vector<double>>& actual,
                      const std::vector<std::vector<double>>& expected) {
  EXPECT_GE(actual.size(), expected.size());
  double greatest = 0;
  for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    greatest = std::max(greatest, error_of(actual[i], expected[i]));
  }
  return greatest;
}

void compare(const Graph& graph, const InterpreterArgs& args, DType dtype, int64_t chunk,
             const SequenceArgs& sequences = {}, bool resident = false) {
  SCOPED_TRACE(fmt::format("{}, T {}, B {}, chunk {}, lengths [{}], resets [{}]{}",
                           to_string(dtype), args.steps, args.batch, chunk,
                           fmt::join(sequences.lengths, ", "), fmt::join(sequences.resets, ", "),
                           resident ? ", resident" : ""));
  const InterpreterResult expected =
      interpret_sequences(graph, args, sequences.lengths, sequences.resets);
  const InterpreterResult actual =
      execute_plan(plan_of(graph, dtype, args.batch, chunk, sequences, resident), args, sequences);
  EXPECT_LE(greatest_error(actual.outputs, expected.outputs), tolerance(dtype));
  EXPECT_LE(greatest_error(actual.final_states, expected.final_states), tolerance(dtype));
}

TEST(PlanExecution, CasesAgreeWithTheInterpreterAroundChunkBoundaries) {
  for (const std::string& name : case_names()) {
    SCOPED_TRACE(name);
    const Graph graph = load_case(name);
    for (const int64_t batch : {1, 3}) {
      for (const int64_t chunk : {1, 2, 5}) {
        for (const int64_t steps : {1, 4, 5, 6, 11}) {
          const bool with_initial_states = steps % 2 == 0;
          compare(graph, random_args(graph, steps, batch, 1, with_initial_states), DType::f64,
                  chunk);
        }
      }
    }
  }
}

TEST(PlanExecution, CasesAgreeInEveryType) {
  for (const std::string& name : case_names()) {
    SCOPED_TRACE(name);
    const Graph graph = load_case(name);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      compare(graph, random_args(graph, 7, 3, 2), dtype, 5);
    }
  }
}

/// Half of the runs in `exact`, half in bf16; with and without lengths and resets.
void compare_sequences(DType exact, bool resident) {
  for (const std::string& name : case_names()) {
    SCOPED_TRACE(name);
    const Graph graph = load_case(name);
    for (uint64_t seed = 0; seed < 6; ++seed) {
      const auto steps = static_cast<int64_t>(4 + seed);
      const InterpreterArgs args = random_args(graph, steps, 3, seed, seed % 2 == 0);
      compare(graph, args, seed < 3 ? exact : DType::bf16, 3,
              random_sequences(args, seed, seed % 3 != 1, seed % 3 != 2), resident);
    }
  }
}

TEST(PlanExecution, CasesAgreeWithLengthsAndResets) {
  compare_sequences(DType::f64, /*resident=*/false);
}

TEST(PlanExecution, CasesAgreeOnTheChip) {
  compare_sequences(DType::f32, /*resident=*/true);
}

/// Of class block or dense, all of which are resident.
bool has_resident_recurrence(const Plan& plan) {
  bool found = false;
  for (const Stage& stage : plan.stages) {
    if (stage.recurrence < RecurrenceClass::Block) continue;
    found = true;
    EXPECT_TRUE(std::holds_alternative<RecurrenceLaunch>(stage.launches[0]))
        << stage.name << ": " << stage.reason;
  }
  return found;
}

TEST(PlanExecution, RandomGraphsAgreeOnTheChip) {
  int compared = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph graph = random_graph(seed, {.operations = 10 + static_cast<int>(seed % 50),
                                            .structure = seed % 4 > 0,
                                            .reversals = seed % 8 > 3});
    const DType dtype = seed % 2 == 0 ? DType::bf16 : DType::f32;
    if (!has_resident_recurrence(plan_of(graph, dtype, 3, 2, {}, /*resident=*/true))) continue;
    ++compared;
    const auto steps = static_cast<int64_t>(1 + seed % 11);
    const InterpreterArgs args = random_args(graph, steps, 3, seed, seed % 3 == 0);
    const SequenceArgs sequences = random_sequences(args, seed, seed % 5 > 2, seed % 5 % 2 == 1);
    compare(graph, args, dtype, 1 + static_cast<int64_t>(seed % 4), sequences, /*resident=*/true);
  }
  EXPECT_GT(compared, 15);
}

TEST(PlanExecution, RandomGraphsAgree) {
  const int64_t chunks[] = {1, 2, 5};
  for (uint64_t seed = 0; seed < 800; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph graph = random_graph(seed, {.operations = 10 + static_cast<int>(seed % 50),
                                            .structure = seed % 4 > 0,
                                            .reversals = seed % 8 > 3});
    const auto steps = static_cast<int64_t>(1 + seed % 11);
    const int64_t batch = seed % 2 == 0 ? 1 : 3;
    const InterpreterArgs args = random_args(graph, steps, batch, seed, seed % 3 == 0);
    const SequenceArgs sequences = random_sequences(args, seed, seed % 5 > 2, seed % 5 % 2 == 1);
    compare(graph, args, DType::f64, chunks[seed % 3], sequences);
    compare(graph, args, seed % 5 == 0 ? DType::bf16 : DType::f32, chunks[(seed + 1) % 3],
            sequences);
  }
}

/// Steps [begin, end) of [T, B, ...].
std::vector<double> slice(const std::vector<double>& sequence, int64_t steps, int64_t begin,
                          int64_t end) {
  const auto row = static_cast<int64_t>(sequence.size()) / steps;
  return {sequence.begin() + begin * row, sequence.begin() + end * row};
}

bool runs_in_reverse(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& n) { return n.op == Op::Reverse; });
}

TEST(PlanExecution, PiecesOfWholeChunksGiveTheBitsOfOneRun) {
  for (const std::string& name : case_names()) {
    SCOPED_TRACE(name);
    const Graph graph = load_case(name);
    const int64_t steps = 11;
    if (runs_in_reverse(graph)) continue;
    const Plan plan = plan_of(graph, DType::f32, 3, 2);
    InterpreterArgs args = random_args(graph, steps, 3, 3);
    const InterpreterResult whole = execute_plan(plan, args);

    InterpreterArgs piece = args;
    std::vector<std::vector<double>> outputs(whole.outputs.size());
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 4}, {4, 6}, {6, 11}}) {
      piece.steps = end - begin;
      for (size_t i = 0; i < args.inputs.size(); ++i) {
        piece.inputs[i] = slice(args.inputs[i], steps, begin, end);
      }
      const InterpreterResult result = execute_plan(plan, piece);
      for (size_t i = 0; i < outputs.size(); ++i) {
        outputs[i].insert(outputs[i].end(), result.outputs[i].begin(), result.outputs[i].end());
      }
      piece.initial_states = result.final_states;
    }
    EXPECT_EQ(outputs, whole.outputs);
    EXPECT_EQ(piece.initial_states, whole.final_states);
  }
}

TEST(PlanExecution, StatesOfSixteenBitRunsKeepTheComputeType) {
  // Adds 2^-12 a thousand times to 1: lost at once if the state were kept in bf16.
  const Graph graph = graph_from(R"(graph Count() {
    input x: []
    state s: []
    %0 = const 1 : []
    %1 = state s @ 1 : []
    %2 = input x : []
    %3 = add %1, %2 : []
    init s = %0
    next s = %3
    output y = %3
  })");
  InterpreterArgs args;
  args.steps = 1024;
  args.batch = 1;
  args.inputs = {std::vector<double>(1024, 1.0 / 4096)};
  const InterpreterResult result = execute_plan(plan_of(graph, DType::bf16, 1, 32), args);
  EXPECT_EQ(result.final_states[0][0], 1.25);
}

TEST(PlanExecution, NanAndInfinityFlowThrough) {
  const Graph graph = load_case("lstm");
  InterpreterArgs args = random_args(graph, 6, 3, 4);
  args.inputs[0][3 * 3] = std::numeric_limits<double>::quiet_NaN();         // t 1, b 0
  args.inputs[0][3 * 3 * 2 + 3] = std::numeric_limits<double>::infinity();  // t 2, b 1
  compare(graph, args, DType::f64, 2);
}

TEST(PlanExecution, TheExecutorSeesMemoryThatNobodyWrote) {
  // A plan without its packing copies multiplies by poison.
  const Graph graph = load_case("elman");
  Plan plan = plan_of(graph, DType::f64, 1, 2);
  ASSERT_EQ(plan.stages[0].domain, Domain::Once);
  plan.stages.erase(plan.stages.begin());
  const InterpreterResult result = execute_plan(plan, random_args(graph, 1, 1, 5));
  EXPECT_TRUE(std::isnan(result.outputs[0][0]));
}

}  // namespace
}  // namespace rnnc::test
