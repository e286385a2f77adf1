#include "passes/graph/delays.h"

#include <gtest/gtest.h>

#include "ir/graph/text.h"
#include "ir/graph/verify.h"
#include "tests/passes/cases.h"
#include "tests/passes/graph/pass_check.h"

namespace rnnc::test {
namespace {

TEST(Delays, BecomeOneStateForEachStep) {
  EXPECT_EQ(after(run_delays, R"(graph G() {
    input x: [3]
    state h: [3]
    %0 = input x @ 1 : [3]
    %1 = state h @ 2 : [3]
    %2 = const 1 : []
    %3 = add %0, %1 : [3]
    init h = %2
    next h = %3
    output y = %3
  })"),
            normal(R"(graph G() {
    input x: [3]
    state h: [3]
    state x@1: [3]
    state h@2: [3] delay of h
    %0 = state x@1 @ 1 : [3]
    %1 = state h@2 @ 1 : [3]
    %2 = const 1 : []
    %3 = add %0, %1 : [3]
    %4 = const 0 : []
    %5 = input x : [3]
    %6 = state h @ 1 : [3]
    init h = %2
    next h = %3
    init x@1 = %4
    next x@1 = %5
    init h@2 = %2
    next h@2 = %6
    output y = %3
  })"));
}

TEST(Delays, LongerOnesAreChainsThatShorterOnesShare) {
  EXPECT_EQ(after(run_delays, R"(graph G() {
    input x: [3]
    %0 = input x @ 3 : [3]
    %1 = input x @ 2 : [3]
    %2 = add %0, %1 : [3]
    output y = %2
  })"),
            normal(R"(graph G() {
    input x: [3]
    state x@1: [3]
    state x@2: [3]
    state x@3: [3]
    %0 = state x@3 @ 1 : [3]
    %1 = state x@2 @ 1 : [3]
    %2 = add %0, %1 : [3]
    %3 = const 0 : []
    %4 = input x : [3]
    %5 = state x@1 @ 1 : [3]
    %6 = state x@2 @ 1 : [3]
    init x@1 = %3
    next x@1 = %4
    init x@2 = %3
    next x@2 = %5
    init x@3 = %3
    next x@3 = %6
    output y = %2
  })"));
}

TEST(Delays, OfReversedStatesAndOfArraysAreSuchStates) {
  EXPECT_EQ(after(run_delays, R"(graph G() {
    input x: [3]
    param m: [2, 3]
    state s: [2, 3] reversed
    %0 = input x : [3]
    %1 = reverse %0 : [3]
    %2 = state s @ 2 : [2, 3]
    %3 = index %2 at 1 : [3]
    %4 = add %1, %3 : [3]
    %5 = stack %1, %4 : [2, 3]
    %6 = param m : [2, 3]
    %7 = reverse %4 : [3]
    init s = %6
    next s = %5
    output y = %7
  })"),
            normal(R"(graph G() {
    input x: [3]
    param m: [2, 3]
    state s: [2, 3] reversed
    state s@2: [2, 3] reversed delay of s
    %0 = input x : [3]
    %1 = reverse %0 : [3]
    %2 = state s@2 @ 1 : [2, 3]
    %3 = index %2 at 1 : [3]
    %4 = add %1, %3 : [3]
    %5 = stack %1, %4 : [2, 3]
    %6 = param m : [2, 3]
    %7 = reverse %4 : [3]
    %8 = state s @ 1 : [2, 3]
    init s = %6
    next s = %5
    init s@2 = %6
    next s@2 = %8
    output y = %7
  })"));
}

TEST(Delays, OfAnImpliedStateAreNamedForWhatItDelays) {
  // A layer's input is a value, whose first delay is a state from the start.
  EXPECT_EQ(after(run_delays, R"(graph G() {
    input x: [3]
    state QRNN.0.x@1: [3]
    %0 = input x : [3]
    %1 = tanh %0 : [3]
    %2 = state QRNN.0.x@1 @ 2 : [3]
    %3 = const 0 : []
    init QRNN.0.x@1 = %3
    next QRNN.0.x@1 = %1
    output y = %2
  })"),
            normal(R"(graph G() {
    input x: [3]
    state QRNN.0.x@1: [3]
    state QRNN.0.x@2: [3] delay of QRNN.0.x@1
    %0 = input x : [3]
    %1 = tanh %0 : [3]
    %2 = state QRNN.0.x@2 @ 1 : [3]
    %3 = const 0 : []
    %4 = state QRNN.0.x@1 @ 1 : [3]
    init QRNN.0.x@1 = %3
    next QRNN.0.x@1 = %1
    init QRNN.0.x@2 = %3
    next QRNN.0.x@2 = %4
    output y = %2
  })"));
}

TEST(Delays, AStateThatIsThereAlreadyIsUsed) {
  EXPECT_EQ(after(run_delays, R"(graph G() {
    input x: [3]
    state x@1: [3]
    %0 = input x : [3]
    %1 = input x @ 1 : [3]
    %2 = const 0 : []
    init x@1 = %2
    next x@1 = %0
    output y = %1
  })"),
            normal(R"(graph G() {
    input x: [3]
    state x@1: [3]
    %0 = input x : [3]
    %1 = state x@1 @ 1 : [3]
    %2 = const 0 : []
    init x@1 = %2
    next x@1 = %0
    output y = %1
  })"));
}

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
