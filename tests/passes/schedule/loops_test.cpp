// Recurrences without products as one kernel over all steps.
#include <gtest/gtest.h>

#include "tests/passes/schedule/stages_check.h"

namespace rnnc::test {
namespace {

TEST(Loop, TakesInWorkBeforeAndAfter) {
  const char* nodes = R"(
    %12 = matmul %1, %0 : [4]
    %13 = sigmoid %12 : [4]
    %14 = mul %13, %9 : [4]
    %15 = add %14, %8 : [4]
    %16 = tanh %15 : [4]
    %17 = mul %16, %0 : [4]
    next h = %15
    next c = %0
    output y = %17
  )";
  expect_stages(nodes, "all", R"(
    sequence:
      gemm products of x = x @ W^T, n 4, k 4
      k0(x, c)
    sequence h (linear):
      loop k1(h, products of x, a, h, x, y) carrying a0 = a3
  )");
  expect_stages(nodes, "-loop", R"(
    sequence:
      gemm products of x = x @ W^T, n 4, k 4
      k0(products of x, sigmoid.6, x, c)
    step h (linear):
      k1(sigmoid.6, h[t-1], a, h)
    sequence:
      k2(h, x, y)
  )");
  expect_stages(nodes, "-fuse", R"(
    sequence:
      gemm products of x = x @ W^T, n 4, k 4
      k0(x, c)
      k1(products of x, sigmoid.6)
    step h (linear):
      k2(sigmoid.6, h[t-1], mul.7)
      k3(mul.7, a, h)
    sequence:
      k4(h, tanh.9)
      k2(tanh.9, x, y)
  )");
}

TEST(Loop, LeavesWhatOthersNeedToo) {
  expect_stages(R"(
    %12 = sigmoid %0 : [4]
    %13 = mul %12, %9 : [4]
    %14 = add %13, %8 : [4]
    %15 = exp %14 : [4]
    %16 = sum %15 : []
    next h = %14
    next c = %12
    output y = %16
  )",
                "all", R"(
    sequence:
      k0(x, c)
    sequence h (linear):
      loop k1(h, c, a, add.6, h) carrying a0 = a4
    sequence:
      k2(add.6, y)
  )");
}

TEST(Loop, TakesInTheLoopsThatUseIt) {
  expect_stages(R"(
    %12 = mul %9, %8 : [4]
    %13 = add %12, %0 : [4]
    %14 = sigmoid %13 : [4]
    %15 = mul %10, %14 : [4]
    %16 = sum %0 : []
    %17 = mul %15, %16 : [4]
    next h = %13
    next c = %17
    output y = %17
  )",
                "all", R"(
    sequence:
      k0(x, sum.9)
    sequence h, c (elementwise):
      loop k1(h, c, a, x, h, sum.9, y, c) carrying a0 = a4, a1 = a7
  )");
  expect_stages(R"(
    %12 = mul %9, %8 : [4]
    %13 = add %12, %0 : [4]
    %14 = sum %13 : []
    %15 = mul %10, %14 : [4]
    %16 = mul %15, %13 : [4]
    next h = %13
    next c = %16
  )",
                "all", R"(
    sequence h (linear):
      loop k0(h, a, x, add.6, h) carrying a0 = a4
    sequence:
      k1(add.6, sum.7)
    sequence c (linear):
      loop k2(c, sum.7, add.6, c) carrying a0 = a3
  )");
}

TEST(Loop, StatesThatOthersReadHaveAHistoryToo) {
  expect_stages(R"(
    %12 = mul %9, %8 : [4]
    %13 = add %12, %10 : [4]
    %14 = mul %10, %13 : [4]
    %15 = matmul %1, %9 : [4]
    next h = %13
    next c = %14
    output y = %15
  )",
                "all", R"(
    sequence h, c (elementwise):
      loop k0(h, c, a, h, h, c) carrying a0 = a3, a1 = a5
    sequence:
      gemm products of h = h[t-1] @ W^T, n 4, k 4
      k1(products of h, y)
  )");
}

TEST(Loop, StatesThatMoveThroughAnArray) {
  const char* graph = R"(graph G() {
    input x: [2]
    state s: [3, 2]
    %0 = input x : [2]
    %1 = const 0.5 : []
    %2 = state s @ 1 : [3, 2]
    %3 = index %2 at 0 : [2]
    %4 = index %2 at 1 : [2]
    %5 = index %2 at 2 : [2]
    %6 = mul %5, %1 : [2]
    %7 = add %6, %0 : [2]
    %8 = stack %7, %3, %4 : [3, 2]
    init s = %1
    next s = %8
    output y = %5
  })";
  EXPECT_EQ(stages_of(graph), lines(R"(
    sequence s (elementwise):
      loop k0(s[0:2], s[2:4], s[4:6], x, s[0:2], s[2:4], s[4:6], y) carrying a0 = a4, a1 = a5, a2 = a6
  )"));
}

}  // namespace
}  // namespace rnnc::test
