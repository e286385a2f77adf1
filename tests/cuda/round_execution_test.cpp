// The order of rounds, launch by launch, gives what the plan's own order gives: on networks and
// random graphs, with every memory that passes/memory/memory.h lets buffers share.
#include <gtest/gtest.h>

#include <algorithm>

#include "passes/build_plan.h"
#include "passes/graph/delays.h"
#include "passes/graph/pipeline.h"
#include "runtime/cuda/rounds.h"
#include "tests/cuda/modules.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
using namespace cuda;

namespace {

/// Chains of one lag step by step in turn, which is one stage of all their launches; those of
/// several stages, and those of other lags, which the executor runs in any order, as they are.
std::vector<Stage> in_turn(const Plan& plan, const Round& round) {
  std::vector<Stage> stages;
  for (const Branch& branch : round.branches) {
    for (const Chain& chain : branch.chains) {
      if (chain.stages.size() > 1) {
        for (const size_t stage : chain.stages) stages.push_back(plan.stages[stage]);
        continue;
      }
      const Stage& added = plan.stages[chain.stages[0]];
      const auto beside = std::ranges::find(stages, added.lag, &Stage::lag);
      if (beside == stages.end()) {
        stages.push_back(added);
      } else {
        beside->launches.insert(beside->launches.end(), added.launches.begin(),
                                added.launches.end());
      }
    }
  }
  return stages;
}

Plan in_rounds(const Plan& plan) {
  Plan result = plan;
  std::erase_if(result.stages, [](const Stage& stage) { return stage.domain != Domain::Once; });
  const CudaModule module = fused_module(plan);
  for (uint32_t sweep = 0; sweep < plan.sweeps; ++sweep) {
    for (const Round& round : find_rounds(plan, module, sweep)) {
      for (const size_t stage : round.sequences) result.stages.push_back(plan.stages[stage]);
      for (Stage& stage : in_turn(plan, round)) result.stages.push_back(std::move(stage));
    }
  }
  return result;
}

void check(Graph graph, int64_t chunk, const PassSet& passes, uint64_t seed) {
  SCOPED_TRACE(
      fmt::format("{}, chunk {}, passes {}, seed {}", graph.name, chunk, passes.to_string(), seed));
  ASSERT_TRUE(run_pipeline(graph, {.passes = passes}).has_value());
  const Result<Plan> plan =
      build_plan(graph, {.batch = 2, .max_steps = 9, .chunk = chunk, .passes = passes});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const InterpreterArgs args = random_args(graph, 9, 2, seed);
  const InterpreterResult expected = execute_plan(*plan, args);
  const InterpreterResult result = execute_plan(in_rounds(*plan), args);
  EXPECT_EQ(result.outputs, expected.outputs);
  EXPECT_EQ(result.final_states, expected.final_states);
}

TEST(RoundExecution, OfNetworks) {
  for (const std::string& name : networks()) {
    for (const int64_t chunk : {1, 2, 4}) check(network(name, 6), chunk, PassSet::all(), 1);
    check(network(name, 6), 4, PassSet::all().without(Pass::Wavefront), 1);
    check(network(name, 6), 4, PassSet::none().with(Pass::Reuse), 1);
  }
}

TEST(RoundExecution, OfRandomGraphs) {
  for (uint64_t seed = 700; seed < 760; ++seed) {
    Graph graph = random_graph(
        seed, {.operations = 40, .structure = seed % 2 == 0, .reversals = seed % 4 > 1});
    run_delays(graph);
    PassSet passes = PassSet::all();
    if (seed % 3 == 0) passes = passes.without(Pass::Hoist);
    if (seed % 5 == 0) passes = passes.without(Pass::Fuse);
    if (seed % 7 == 0) passes = passes.without(Pass::Wavefront);
    check(graph, 1 + static_cast<int64_t>(seed % 4), passes, seed);
  }
}

}  // namespace
}  // namespace rnnc::test
