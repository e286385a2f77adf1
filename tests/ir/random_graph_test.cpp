#include "tests/support/cells/random_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/graph/sweeps.h"
#include "ir/graph/text.h"
#include "ir/graph/verify.h"

namespace rnnc {
namespace {

/// Every combination of the options, by turns.
RandomGraphOptions options_of(uint64_t seed, RandomGraphOptions options = {}) {
  options.structure = seed % 2 == 1;
  options.reversals = seed % 4 > 1;
  return options;
}

TEST(RandomGraph, IsVerifiedBoundAndTheSameEveryTime) {
  for (uint64_t seed = 0; seed < 800; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph graph = random_graph(seed, options_of(seed));
    const Status verified = verify(graph);
    ASSERT_TRUE(verified) << verified.error().message << "\n" << to_string(graph);
    const Result<DimBindings> bindings = complete_bindings(graph, {});
    EXPECT_TRUE(bindings) << bindings.error().message;
    EXPECT_TRUE(graph.dims.empty());
    EXPECT_EQ(to_string(graph), to_string(random_graph(seed, options_of(seed))));
  }
}

TEST(RandomGraph, HasEveryOp) {
  std::map<Op, int> counts;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    for (const Node& node : random_graph(seed).nodes) ++counts[node.op];
  }
  for (const OpInfo& row : all_ops()) {
    if ((!row.scalar && !row.reduction) || row.op == Op::StopGradient) continue;
    EXPECT_GE(counts[row.op], 30) << row.name;
  }
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Graph graph = random_graph(seed, {.structure = true, .reversals = true});
    for (const Node& node : graph.nodes) ++counts[node.op];
  }
  for (const OpInfo& row : all_ops()) {
    if (row.op == Op::Valid || row.op == Op::Reset) continue;  // passes make these
    if (row.op == Op::Total || row.op == Op::Final || row.op == Op::Earlier) continue;  // and these
    if (row.op == Op::StopGradient) continue;
    EXPECT_GE(counts[row.op], 30) << row.name;
  }
}

TEST(RandomGraph, GoesOverTheSequenceSeveralTimes) {
  std::map<uint32_t, int> sweeps;  // graphs with so many
  std::map<bool, int> arrays;      // states of arrays, by direction
  int blocks = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Graph graph = random_graph(seed, {.structure = true, .reversals = true});
    const auto found = find_sweeps(graph);
    ASSERT_TRUE(found);
    ++sweeps[*std::ranges::max_element(*found)];
    for (const StateDecl& state : graph.states) {
      if (state.type.rank() == 2) ++arrays[state.reversed];
    }
    for (const Node& node : graph.nodes) {
      if (node.op == Op::MatMul && std::ranges::any_of(node.operands, [&](NodeId id) {
            return graph[id].type.rank() == 3;
          })) {
        ++blocks;
      }
    }
  }
  EXPECT_GE(sweeps[1], 20);
  EXPECT_GE(sweeps[2], 20);
  EXPECT_GE(arrays[false], 20);
  EXPECT_GE(arrays[true], 20);
  EXPECT_GE(blocks, 100);
}

TEST(RandomGraph, ValuesStayBounded) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Graph graph = random_graph(seed, options_of(seed, {.operations = 40, .largest_size = 20}));
    graph.outputs.clear();
    const std::vector<bool> reversed = find_reversed(graph).value();
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      if (reversed[id]) continue;
      graph.outputs.push_back({fmt::format("n{}", id), id, {}});
    }
    const InterpreterResult result = interpret(graph, random_args(graph, 5, 2, seed, true));
    for (size_t id = 0; id < result.outputs.size(); ++id) {
      for (const double value : result.outputs[id]) {
        // A product of vectors at most; concatenations are up to four times as long.
        ASSERT_LE(std::fabs(value), 8 * 8 * 80) << graph.outputs[id].name;
      }
    }
    for (const auto& state : result.final_states) {
      for (const double value : state) ASSERT_LE(std::fabs(value), 1);
    }
  }
}

// Rounding errors must not grow: what a backend computes in f32 is compared with float64.
TEST(RandomGraph, IsWellConditioned) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph graph = random_graph(seed, options_of(seed));
    InterpreterArgs args = random_args(graph, 8, 2, seed, true);
    const InterpreterResult before = interpret(graph, args);
    for (std::vector<double>& state : args.initial_states) {
      for (double& value : state) value += 1e-7;
    }
    const InterpreterResult after = interpret(graph, args);
    for (size_t o = 0; o < before.outputs.size(); ++o) {
      for (size_t i = 0; i < before.outputs[o].size(); ++i) {
        ASSERT_NEAR(before.outputs[o][i], after.outputs[o][i], 5e-6);
      }
    }
  }
}

}  // namespace
}  // namespace rnnc
