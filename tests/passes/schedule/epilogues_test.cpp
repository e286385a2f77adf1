// Elementwise work behind products in their launch, and sums of products.
#include <gtest/gtest.h>

#include "tests/passes/schedule/stages_check.h"

namespace rnnc::test {
namespace {

// ---- Epilogue ----

TEST(Epilogue, ProductsOfDifferentOperandsGoInOneLaunch) {
  expect_stages(R"(
    %12 = matmul %1, %9 : [4]
    %13 = matmul %2, %9 : [4]
    %14 = matmul %3, %10 : [4]
    %15 = mul %12, %14 : [4]
    %16 = add %15, %13 : [4]
    next h = %16
    next c = %15
  )",
                "all", R"(
    step h, c (dense):
      fused k0(product, product, product, c, h)
        a0..1 += h[t-1] @ W|V^T, k 4
        a2 += c[t-1] @ R^T, k 4
  )");
}

TEST(Epilogue, KernelsWithReductionsTakeNone) {
  expect_stages(R"(
    %12 = matmul %1, %9 : [4]
    %13 = sum %12 : []
    %14 = mul %12, %13 : [4]
    next h = %14
    next c = %0
  )",
                "all", R"(
    sequence:
      k0(x, c)
    step h (dense):
      gemm products of h = h[t-1] @ W^T, n 4, k 4
      k1(products of h, h)
  )");
}

TEST(Epilogue, ResultsOfAnotherLengthOrReadInPartStay) {
  expect_stages(R"(
    %12 = matmul %7, %9 : [6]
    %13 = slice %12 from 0 to 4 : [4]
    %14 = slice %12 from 2 to 6 : [4]
    %15 = mul %13, %14 : [4]
    next h = %15
    next c = %0
  )",
                "all", R"(
    sequence:
      k0(x, c)
    step h (dense):
      gemm products of h = h[t-1] @ F^T, n 3, k 2, 2 blocks
      k1(products of h[0:4], products of h[2:6], h)
  )");
}

TEST(Epilogue, ResultsThatAreReadElsewhereTooAreStoredByTheKernel) {
  expect_stages(R"(
    %12 = matmul %1, %9 : [4]
    %13 = tanh %12 : [4]
    %14 = matmul %2, %13 : [4]
    %15 = mul %14, %12 : [4]
    %16 = sum %12 : []
    next h = %15
    next c = %0
    output y = %12
    output s = %16
  )",
                "all", R"(
    sequence:
      k0(x, c)
    step h (dense):
      fused k1(product, matmul.5, y, tanh.6)
        a0 += h[t-1] @ W^T, k 4
      fused k2(product, matmul.5, h)
        a0 += tanh.6 @ V^T, k 4
    sequence:
      k3(matmul.5, s)
  )");
}

TEST(Epilogue, ResultsThatAProductReadsFirstStay) {
  expect_stages(R"(
    %12 = matmul %1, %9 : [4]
    %13 = matmul %2, %12 : [4]
    %14 = mul %12, %13 : [4]
    next h = %14
    next c = %0
  )",
                "all", R"(
    sequence:
      k0(x, c)
    step h (dense):
      gemm products of h = h[t-1] @ W^T, n 4, k 4
      fused k1(product, products of h, h)
        a0 += products of h @ V^T, k 4
  )");
}

TEST(Epilogue, ManyRowsAreALibrarysBusiness) {
  expect_stages(kElman, "all", R"(
    sequence:
      gemm products of x = x @ W^T, n 4, k 4
      k0(x, c)
      k0(c[t-1], y)
    step h (dense):
      gemm products of h = h[t-1] @ R^T, n 4, k 4
      k1(products of x, products of h, h)
  )",
                /*batch=*/257);
}

// ---- Sum ----

TEST(Sum, ProductsAddToEarlierOnes) {
  const char* nodes = R"(
    %12 = tanh %0 : [4]
    %13 = exp %0 : [4]
    %14 = matmul %1, %0 : [4]
    %15 = matmul %2, %12 : [4]
    %16 = matmul %3, %13 : [4]
    %17 = add %14, %15 : [4]
    %18 = add %17, %16 : [4]
    %19 = relu %18 : [4]
    next h = %18
    next c = %0
    output y = %19
  )";
  expect_stages(nodes, "all", R"(
    sequence:
      gemm products of x = x @ W^T, n 4, k 4
      k0(x, tanh.5, exp.6, c)
      gemm products of x += tanh.5 @ V^T, n 4, k 4
      gemm products of x += exp.6 @ R^T, n 4, k 4
      k1(products of x, y, h)
  )");
  expect_stages(nodes, "-sum", R"(
    sequence:
      gemm products of x = x @ W^T, n 4, k 4
      k0(x, tanh.5, exp.6, c)
      gemm products of tanh.5 = tanh.5 @ V^T, n 4, k 4
      gemm products of exp.6 = exp.6 @ R^T, n 4, k 4
      k1(products of x, products of tanh.5, products of exp.6, h, y)
  )");
}

TEST(Sum, MergedProductsLineUp) {
  expect_stages(R"(
    %12 = tanh %0 : [4]
    %13 = matmul %1, %0 : [4]
    %14 = matmul %2, %0 : [4]
    %15 = matmul %3, %12 : [4]
    %16 = matmul %4, %12 : [4]
    %17 = add %13, %16 : [4]
    %18 = add %15, %14 : [4]
    %19 = mul %17, %18 : [4]
    next h = %19
    next c = %0
  )",
                "all", R"(
    sequence:
      gemm products of x = x @ W|V^T, n 8, k 4
      k0(x, tanh.6, c)
      gemm products of x += tanh.6 @ S|R^T, n 8, k 4
      k1(products of x[0:4], products of x[4:8], h)
  )");
}

TEST(Sum, NotOfProductsThatAreUsedOtherwiseOrDoNotLineUp) {
  expect_stages(R"(
    %12 = tanh %0 : [4]
    %13 = matmul %1, %0 : [4]
    %14 = matmul %3, %12 : [4]
    %15 = add %13, %14 : [4]
    next h = %15
    next c = %14
  )",
                "all", R"(
    sequence:
      gemm products of x = x @ W^T, n 4, k 4
      k0(x, tanh.4)
      gemm products of tanh.4 = tanh.4 @ R^T, n 4, k 4
      k1(products of x, products of tanh.4, h, c)
  )");
  expect_stages(R"(
    %12 = tanh %0 : [4]
    %13 = matmul %1, %0 : [4]
    %14 = matmul %2, %0 : [4]
    %15 = matmul %3, %12 : [4]
    %16 = add %13, %15 : [4]
    %17 = mul %14, %16 : [4]
    next h = %17
    next c = %0
  )",
                "all", R"(
    sequence:
      gemm products of x = x @ W|V^T, n 8, k 4
      k0(x, tanh.5, c)
      gemm products of tanh.5 = tanh.5 @ R^T, n 4, k 4
      k1(products of x[0:4], products of tanh.5, products of x[4:8], h)
  )");
}

TEST(Sum, InAKernelsRegisters) {
  expect_stages(R"(
    %12 = matmul %1, %9 : [4]
    %13 = matmul %2, %9 : [4]
    %14 = matmul %3, %10 : [4]
    %15 = matmul %4, %10 : [4]
    %16 = add %12, %15 : [4]
    %17 = add %13, %14 : [4]
    %18 = mul %16, %17 : [4]
    next h = %18
    next c = %16
  )",
                "all", R"(
    step h, c (dense):
      fused k0(product, product, c, h)
        a0..1 += h[t-1] @ W|V^T, k 4
        a0..1 += c[t-1] @ S|R^T, k 4
  )");
}

}  // namespace
}  // namespace rnnc::test
