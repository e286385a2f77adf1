#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/common_subexpressions.h"
#include "passes/constant_folding.h"
#include "passes/dead_code.h"
#include "passes/dot_products.h"
#include "passes/input_delays.h"
#include "passes/pipeline.h"
#include "tests/passes/cases.h"
#include "tests/support/random_graph.h"

namespace rnnc::test {
namespace {

/// Runs one pass, text in, text out. Running it again must find nothing to do.
std::string after(bool (*pass)(Graph&), const std::string& text) {
  Graph graph = graph_from(text);
  EXPECT_TRUE(pass(graph));
  const std::string result = to_string(graph);
  EXPECT_FALSE(pass(graph));
  EXPECT_EQ(to_string(graph), result);
  return result;
}

/// The text as the printer writes it.
std::string normal(const std::string& text) {
  return to_string(graph_from(text));
}

TEST(DeadCode, KeepsWhatOutputsAndStatesNeed) {
  EXPECT_EQ(after(run_dead_code, R"(graph G() {
    input x: [3]
    input unused: [3]
    state h: [3]
    %0 = input x : [3]
    %1 = tanh %0 : [3]
    %2 = sigmoid %0 : [3]
    %3 = const 1 : []
    %4 = const 2 : []
    %5 = add %1, %3 : [3]
    %6 = add %2, %4 : [3]
    %7 = input unused : [3]
    init h = %4
    next h = %0
    output y = %6
  })"),
            normal(R"(graph G() {
    input x: [3]
    input unused: [3]
    state h: [3]
    %0 = input x : [3]
    %1 = sigmoid %0 : [3]
    %2 = const 2 : []
    %3 = add %1, %2 : [3]
    init h = %2
    next h = %0
    output y = %3
  })"));
}

TEST(CommonSubexpressions, JoinsEqualValuesThroughTheirUsers) {
  EXPECT_EQ(after(run_common_subexpressions, R"(graph G() {
    input x: [3]
    state h: [3]
    %0 = input x : [3]
    %1 = input x : [3]
    %2 = tanh %0 : [3]
    %3 = tanh %1 : [3]
    %4 = sub %2, %3 : [3]
    %5 = sub %3, %2 : [3]
    %6 = const 0 : []
    %7 = const -0 : []
    %8 = const 0 : []
    %9 = div %4, %7 : [3]
    init h = %8
    next h = %5
    output y = %9
  })"),
            normal(R"(graph G() {
    input x: [3]
    state h: [3]
    %0 = input x : [3]
    %1 = input x : [3]
    %2 = tanh %0 : [3]
    %3 = tanh %0 : [3]
    %4 = sub %2, %2 : [3]
    %5 = sub %2, %2 : [3]
    %6 = const 0 : []
    %7 = const -0 : []
    %8 = const 0 : []
    %9 = div %4, %7 : [3]
    init h = %6
    next h = %4
    output y = %9
  })"));
}

TEST(CommonSubexpressions, KeepsOperandOrderDelaysAndDeclarationsApart) {
  Graph graph = graph_from(R"(graph G() {
    input x: [3]
    input y: [3]
    state h: [3]
    %0 = input x : [3]
    %1 = input y : [3]
    %2 = input x @ 1 : [3]
    %3 = state h @ 1 : [3]
    %4 = state h @ 2 : [3]
    %5 = sub %0, %1 : [3]
    %6 = sub %1, %0 : [3]
    %7 = const 0 : []
    %8 = add %5, %6 : [3]
    %9 = add %3, %4 : [3]
    %10 = add %8, %9 : [3]
    %11 = add %10, %2 : [3]
    init h = %7
    next h = %11
    output y1 = %11
  })");
  EXPECT_FALSE(run_common_subexpressions(graph));
}

TEST(ConstantFolding, FoldsThroughAndKeepsNanAndInfinity) {
  EXPECT_EQ(after(run_constant_folding, R"(graph G() {
    input x: []
    %0 = const 0 : []
    %1 = const -1 : []
    %2 = div %1, %0 : []
    %3 = log %1 : []
    %4 = const 4 : []
    %5 = sqrt %4 : []
    %6 = add %5, %4 : []
    %7 = input x : []
    %8 = mul %7, %0 : []
    output infinite = %2
    output undefined = %3
    output six = %6
    output product = %8
  })"),
            normal(R"(graph G() {
    input x: []
    %0 = const 0 : []
    %1 = const -1 : []
    %2 = const -inf : []
    %3 = const nan : []
    %4 = const 4 : []
    %5 = const 2 : []
    %6 = const 6 : []
    %7 = input x : []
    %8 = mul %7, %0 : []
    output infinite = %2
    output undefined = %3
    output six = %6
    output product = %8
  })"));
}

TEST(DotProducts, BecomeSums) {
  EXPECT_EQ(after(run_dot_products, R"(graph G() {
    input x: [3]
    param w: [3]
    param W: [2, 3]
    %0 = input x : [3]
    %1 = param w : [3]
    %2 = matmul %1, %0 : []
    %3 = param W : [2, 3]
    %4 = matmul %3, %0 : [2]
    %5 = add %4, %2 : [2]
    output y = %5
  })"),
            normal(R"(graph G() {
    input x: [3]
    param w: [3]
    param W: [2, 3]
    %0 = input x : [3]
    %1 = param w : [3]
    %2 = mul %1, %0 : [3]
    %3 = sum %2 : []
    %4 = param W : [2, 3]
    %5 = matmul %4, %0 : [2]
    %6 = add %5, %3 : [2]
    output y = %6
  })"));
}

TEST(InputDelays, BecomeOneStatePerInput) {
  EXPECT_EQ(after(run_input_delays, R"(graph G() {
    input x: [3]
    input x.before: [3]
    state h: [3]
    %0 = input x @ 1 : [3]
    %1 = input x @ 3 : [3]
    %2 = input x.before : [3]
    %3 = add %0, %1 : [3]
    %4 = add %3, %2 : [3]
    %5 = const 1 : []
    init h = %5
    next h = %4
    output y = %4
  })"),
            normal(R"(graph G() {
    input x: [3]
    input x.before: [3]
    state h: [3]
    state x.before_: [3]
    %0 = state x.before_ @ 1 : [3]
    %1 = state x.before_ @ 3 : [3]
    %2 = input x.before : [3]
    %3 = add %0, %1 : [3]
    %4 = add %3, %2 : [3]
    %5 = const 1 : []
    %6 = const 0 : []
    %7 = input x : [3]
    init h = %5
    next h = %4
    init x.before_ = %6
    next x.before_ = %7
    output y = %4
  })"));
}

TEST(Pipeline, IsIdempotent) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph = random_graph(seed);
    ASSERT_TRUE(run_pipeline(graph));
    const std::string once = to_string(graph);
    ASSERT_TRUE(run_pipeline(graph));
    EXPECT_EQ(to_string(graph), once);
  }
}

}  // namespace
}  // namespace rnnc::test
