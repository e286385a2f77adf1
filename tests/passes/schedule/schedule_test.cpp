// What runs when, and in how many launches.
#include <gtest/gtest.h>

#include "tests/passes/schedule/stages_check.h"

namespace rnnc::test {
namespace {

// ---- Hoist ----

TEST(Hoist, WhatWaitsForNoRecurrenceRunsOverWholeChunks) {
  expect_stages(kElman, "hoist", R"(
    sequence:
      gemm products of x = x @ W^T, n 4, k 4
      k0(x, c)
      k0(c[t-1], y)
    step h (dense):
      gemm products of h = h[t-1] @ R^T, n 4, k 4
      k1(products of x, products of h, add.8)
      k2(add.8, h)
  )");
}

TEST(Hoist, OffEverythingRunsStepByStep) {
  expect_stages(kElman, "none", R"(
    sequence:
      k0(x, x)
    step:
      gemm products of x = x @ W^T, n 4, k 4
      k0(x, c)
      k0(c[t-1], y)
    step h (dense):
      gemm products of h = h[t-1] @ R^T, n 4, k 4
      k1(products of x, products of h, add.8)
      k2(add.8, h)
  )");
}

TEST(Hoist, HalfOfAProductWithAJoinedVectorIsHoisted) {
  const char* nodes = R"(
    %12 = concat %0, %9 : [8]
    %13 = concat %1, %3 : [8, 4]
    %14 = matmul %12, %13 : [4]
    next h = %14
    next c = %0
  )";
  expect_stages(nodes, "all", R"(
    sequence:
      gemm products of x = x @ W, n 4, k 4
      k0(x, c)
    step h (dense):
      fused k1(product, products of x, h)
        a0 += h[t-1] @ R^T, k 4
  )");
  expect_stages(nodes, "-hoist,-epilogue", R"(
    step:
      k1(x, c)
    step h (dense):
      k0(x, concat.5[0:4], h[t-1], concat.5[4:8])
      gemm products of concat.5 = concat.5 @ concat.6^T, n 4, k 8
      k1(products of concat.5, h)
  )");
}

// ---- Merge ----

TEST(Merge, ProductsWithOneLeftOperand) {
  const char* nodes = R"(
    %12 = matmul %1, %0 : [4]
    %13 = matmul %2, %0 : [4]
    %14 = matmul %2, %8 : [4]
    %15 = mul %12, %13 : [4]
    %16 = add %15, %14 : [4]
    next h = %0
    next c = %0
    output y = %16
  )";
  expect_stages(nodes, "-merge", R"(
    sequence:
      gemm products of x = x @ W^T, n 4, k 4
      gemm products of x = x @ V^T, n 4, k 4
      k0(products of x, products of x, products of a, y, x, h, c)
  )");
  expect_stages(nodes, "all", R"(
    sequence:
      gemm products of x = x @ W|V^T, n 8, k 4
      k0(products of x[0:4], products of x[4:8], products of a, y, x, h, c)
  )");
}

TEST(Merge, TransposedWeightsAreTurnedForIt) {
  expect_stages(R"(
    %12 = matmul %1, %9 : [4]
    %13 = matmul %9, %2 : [4]
    %14 = mul %12, %13 : [4]
    next h = %14
    next c = %0
  )",
                "-epilogue", R"(
    sequence:
      k0(x, c)
    step h (dense):
      gemm products of h = h[t-1] @ W|V^T, n 8, k 4
      k1(products of h[0:4], products of h[4:8], h)
  )");
}

TEST(Merge, ProductsThatAreReadInPiecesComeApartAndTogether) {
  const char* graph = R"(graph Fat(I = 3, H = 4) {
    input x: [I]
    param W: [4*H, I]
    param R: [4*H, H]
    param b: [4*H]
    state h: [H]
    state c: [H]
    %0 = input x : [I]
    %1 = param W : [4*H, I]
    %2 = param R : [4*H, H]
    %3 = param b : [4*H]
    %4 = state h @ 1 : [H]
    %5 = state c @ 1 : [H]
    %6 = matmul %1, %0 : [4*H]
    %7 = matmul %2, %4 : [4*H]
    %8 = add %6, %7 : [4*H]
    %9 = add %8, %3 : [4*H]
    %10 = slice %9 from 0 to H : [H]
    %11 = slice %9 from H to 2*H : [H]
    %12 = slice %9 from 2*H to 3*H : [H]
    %13 = slice %9 from 3*H to 4*H : [H]
    %14 = sigmoid %10 : [H]
    %15 = sigmoid %11 : [H]
    %16 = tanh %12 : [H]
    %17 = sigmoid %13 : [H]
    %18 = mul %15, %5 : [H]
    %19 = mul %14, %16 : [H]
    %20 = add %18, %19 : [H]
    %21 = tanh %20 : [H]
    %22 = mul %17, %21 : [H]
    %23 = const 0 : []
    init h = %23
    next h = %22
    init c = %23
    next c = %20
    output y = %22
  })";
  EXPECT_EQ(stages_of(graph), lines(R"(
    sequence:
      gemm products of x = x @ W^T, n 16, k 3
    step h, c (dense):
      fused k0(product, product, product, product, products of x[0:4], products of x[4:8], products of x[8:12], products of x[12:16], b[0:4], b[4:8], b[8:12], b[12:16], c[t-1], c, y, h)
        a0..3 += h[t-1] @ R[0:4]|R[4:8]|R[8:12]|R[12:16]^T, k 4
  )"));
}

TEST(Merge, BlocksOfOneShape) {
  expect_stages(R"(
    %12 = matmul %5, %0 : [4]
    %13 = matmul %6, %0 : [4]
    %14 = matmul %7, %0 : [6]
    %15 = matmul %1, %0 : [4]
    %16 = mul %12, %13 : [4]
    %17 = mul %16, %15 : [4]
    next h = %17
    next c = %0
    output y = %14
  )",
                "all", R"(
    sequence:
      gemm products of x = x @ D|E^T, n 2, k 2, 2 blocks, 2 repeats
      gemm products of x = x @ F^T, n 3, k 2, 2 blocks
      gemm products of x = x @ W^T, n 4, k 4
      k0(products of x[0:4], products of x[4:8], products of x, h, x, c)
      k1(products of x, y)
  )");
}

// ---- Fuse ----

TEST(Fuse, OffEachOpIsAKernel) {
  const char* nodes = R"(
    %12 = sigmoid %0 : [4]
    %13 = sum %12 : []
    %14 = mul %12, %13 : [4]
    next h = %14
    next c = %0
  )";
  expect_stages(nodes, "all", R"(
    sequence:
      k0(x, h, c)
  )");
  expect_stages(nodes, "-fuse", R"(
    sequence:
      k0(x, c)
      k1(x, sigmoid.2)
      k2(sigmoid.2, sum.3)
      k3(sigmoid.2, sum.3, h)
  )");
}

TEST(Fuse, CheapWorkAroundARecurrenceIsPartOfIt) {
  expect_stages(R"(
    %12 = matmul %1, %0 : [4]
    %13 = add %12, %8 : [4]
    %14 = sigmoid %12 : [4]
    %15 = matmul %3, %9 : [4]
    %16 = mul %13, %15 : [4]
    %17 = add %14, %16 : [4]
    %18 = mul %17, %8 : [4]
    %19 = mul %17, %0 : [4]
    next h = %17
    next c = %0
    output y = %18
    output z = %19
  )",
                "all", R"(
    sequence:
      gemm products of x = x @ W^T, n 4, k 4
      k0(products of x, sigmoid.8, x, c)
    step h (dense):
      fused k1(product, products of x, a, sigmoid.8, h, y)
        a0 += h[t-1] @ R^T, k 4
    sequence:
      k2(h, x, z)
  )");
}

}  // namespace
}  // namespace rnnc::test
