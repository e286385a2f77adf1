// That states which calls of one step do not copy (ir/plan/direct_states.h) are what they are to the
// plan: plans whose launches have the caller's arrays in place of these compute the same.
#include <gtest/gtest.h>

#include "ir/graph/interpreter.h"
#include "ir/plan/direct_states.h"
#include "ir/plan/plan_accesses.h"
#include "passes/build_plan.h"
#include "tests/passes/cases.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/cells/sequence_cases.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

Plan plan_of(const Graph& graph, DType dtype, int64_t batch, const Machine& machine) {
  Result<Plan> plan =
      build_plan(graph, {.dtype = dtype, .batch = batch, .max_steps = 1, .machine = machine});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

BufferId buffer_of(const Plan& plan, Role role, uint32_t state) {
  const auto found = std::ranges::find_if(plan.buffers, [&](const Buffer& buffer) {
    return buffer.role == role && buffer.slot == state;
  });
  return static_cast<BufferId>(found - plan.buffers.begin());
}

/// The plan for one step, whose stages touch the caller's arrays of direct states. No plan that
/// `verify` takes, but the executor runs it.
Plan without_copies(Plan plan) {
  const std::vector<DirectState> states = find_direct_states(plan);
  for (uint32_t i = 0; i < states.size(); ++i) {
    const auto& [initial, starts_at_zero, final] = states[i];
    if (initial != kNoBuffer) plan.states[i].init_given = {};
    if (final != kNoBuffer) plan.states[i].write_final = {};
  }
  for_each_access(plan, [&](Access& access) {
    for (uint32_t i = 0; i < states.size(); ++i) {
      const auto& [initial, starts_at_zero, final] = states[i];
      const bool chunk = plan.buffers[access.buffer].extent == Extent::Chunk;
      if (access.buffer == initial && access.delay == (chunk ? 1 : 0)) {
        access.buffer = buffer_of(plan, Role::InitialState, i);
      } else if (access.buffer == final && (!chunk || access.delay == 0)) {
        access.buffer = buffer_of(plan, Role::FinalState, i);
      } else {
        continue;
      }
      access.delay = 0;
      return;
    }
  });
  return plan;
}

/// How many states are direct both ways.
int64_t compare(const Graph& graph, DType dtype, int64_t batch, const Machine& machine,
                uint64_t seed) {
  const Plan plan = plan_of(graph, dtype, batch, machine);
  const std::vector<DirectState> states = find_direct_states(plan);
  InterpreterArgs args = random_args(graph, 1, batch, seed);
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const BufferId given = buffer_of(plan, Role::InitialState, static_cast<uint32_t>(i));
    args.initial_states.emplace_back(batch * plan.buffers[given].width, 0.25);
  }
  const InterpreterResult expected = execute_plan(plan, args);
  // Delays are states that the graph does not have.
  if (dtype == DType::f32 && plan.states.size() == graph.states.size()) {
    EXPECT_LE(error_of_results(expected, interpret(graph, args)), 1e-4);
  }
  const InterpreterResult actual = execute_plan(without_copies(plan), args);
  EXPECT_EQ(actual.outputs, expected.outputs);
  EXPECT_EQ(actual.final_states, expected.final_states);
  return std::ranges::count_if(states, [](const DirectState& state) {
    return state.initial != kNoBuffer && state.final != kNoBuffer;
  });
}

TEST(DirectStates, AreWhatTheyAreToThePlan) {
  int64_t direct = 0;
  for (const std::string& name : case_names()) {
    SCOPED_TRACE(name);
    const Graph graph = load_case(name);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const Machine& machine : {Machine{}, h200_machine()}) {
        direct += compare(graph, dtype, 3, machine, 1);
      }
    }
  }
  EXPECT_GT(direct, 50);
}

TEST(DirectStates, OfRandomGraphsAreToo) {
  int64_t direct = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph graph = random_graph(seed, {.operations = 10 + static_cast<int>(seed % 50),
                                            .structure = seed % 4 > 0,
                                            .reversals = seed % 8 > 3});
    direct += compare(graph, seed % 2 == 0 ? DType::f32 : DType::bf16, 1 + seed % 3,
                      seed % 3 == 0 ? Machine{} : h200_machine(), seed);
  }
  EXPECT_GT(direct, 100);
}

/// Neither lags nor states that are carried on.
TEST(DirectStates, AreAllOfAnLstmsOfOneStep) {
  const Graph graph = load_case("stacked_lstm");
  for (const Machine& machine : {Machine{}, h200_machine()}) {
    for (const DirectState& state : find_direct_states(plan_of(graph, DType::f32, 1, machine))) {
      EXPECT_NE(state.initial, kNoBuffer);
      EXPECT_NE(state.final, kNoBuffer);
      EXPECT_TRUE(state.starts_at_zero);
    }
  }
}

}  // namespace
}  // namespace rnnc::test
