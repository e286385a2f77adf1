#include "passes/graph/delays.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace rnnc::test
