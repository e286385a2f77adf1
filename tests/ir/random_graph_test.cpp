#include "tests/support/random_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/text.h"
#include "ir/verify.h"

namespace rnnc {
namespace {

TEST(RandomGraph, IsVerifiedBoundAndTheSameEveryTime) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph graph = random_graph(seed);
    const Status verified = verify(graph);
    ASSERT_TRUE(verified) << verified.error().message << "\n" << to_string(graph);
    EXPECT_TRUE(complete_bindings(graph, {}));
    EXPECT_TRUE(graph.dims.empty());
    EXPECT_EQ(to_string(graph), to_string(random_graph(seed)));
  }
}

TEST(RandomGraph, HasEveryOp) {
  std::map<Op, int> counts;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    for (const Node& node : random_graph(seed).nodes) ++counts[node.op];
  }
  for (const OpInfo& row : all_ops()) EXPECT_GE(counts[row.op], 30) << row.name;
}

TEST(RandomGraph, ValuesStayBounded) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Graph graph = random_graph(seed, {.operations = 40, .largest_size = 20});
    graph.outputs.clear();
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      graph.outputs.push_back({fmt::format("n{}", id), id, {}});
    }
    const InterpreterResult result = interpret(graph, random_args(graph, 5, 2, seed, true));
    for (size_t id = 0; id < result.outputs.size(); ++id) {
      for (const double value : result.outputs[id]) {
        ASSERT_LE(std::fabs(value), 8 * 8 * 20) << "%" << id;  // a product of vectors at most
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
    const Graph graph = random_graph(seed);
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
