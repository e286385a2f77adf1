#include "passes/graph/delays.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "ir/graph/text.h"
#include "ir/graph/verify.h"
#include "tests/passes/cases.h"
#include "tests/passes/graph/pass_check.h"

namespace rnnc::test {
namespace {

TEST(Delays, ChangeNothingThatIsComputed) {
  size_t with_delays = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Graph before = any_random_graph(seed);
    Graph graph = before;
    if (run_delays(graph)) ++with_delays;
    ASSERT_TRUE(verify(graph));
    expect_same_results(before, graph, seed);
    for (const Node& node : graph.nodes) {
      EXPECT_EQ(node.delay, node.op == Op::State ? 1u : 0u);
    }
  }
  EXPECT_GT(with_delays, 50u);
}

/// Reads x[t-1], x[t-delay], h[t-1], h[t-2] and h[t-delay], h starting as a param.
Graph reads_far_back(int delay) {
  const std::string text = R"(graph Far() {
    input x: [3]
    param a: [3]
    state h: [3]
    %0 = input x @ DELAY : [3]
    %1 = input x @ 1 : [3]
    %2 = state h @ DELAY : [3]
    %3 = state h @ 2 : [3]
    %4 = state h @ 1 : [3]
    %5 = param a : [3]
    %6 = mul %2, %5 : [3]
    %7 = sub %0, %6 : [3]
    %8 = mul %1, %3 : [3]
    %9 = add %7, %8 : [3]
    %10 = sub %9, %4 : [3]
    %11 = tanh %10 : [3]
    init h = %5
    next h = %11
    output y = %11
  })";
  return graph_from(std::regex_replace(text, std::regex("DELAY"), std::to_string(delay)));
}

TEST(Delays, LongOnesAreOneHistory) {
  for (const int delay : {8, 9, 10, 17, 300}) {
    SCOPED_TRACE(delay);
    const Graph before = reads_far_back(delay);
    Graph graph = before;
    ASSERT_TRUE(run_delays(graph));
    ASSERT_TRUE(verify(graph));
    expect_same_results(before, graph, /*seed=*/7, /*steps=*/40);
    EXPECT_EQ(graph.states.size(), delay > 8 ? 3u : 16u);
    EXPECT_LE(graph.nodes.size(), 60u);
  }
}

}  // namespace
}  // namespace rnnc::test
