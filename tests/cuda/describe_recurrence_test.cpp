// What kernels of recurrences say before their text of the cell that they compute.
#include <gtest/gtest.h>

#include "codegen/cuda/cuda_code.h"
#include "ir/graph/text.h"
#include "passes/build_plan.h"

namespace rnnc::test {
namespace {

/// The comment of the plan's first recurrence on a GPU.
std::string description(std::string_view text) {
  const Result<Graph> graph = parse_graph(text);
  RNNC_CHECK(graph.has_value(), "{}", graph.error().message);
  const Result<Plan> plan = build_plan(
      *graph, {.dtype = DType::bf16, .batch = 16, .max_steps = 100, .machine = h200_machine()});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  const std::string source = emit_cuda(*plan, "sm_90").value();
  const size_t begin = source.find("// r0, of ");
  return begin == std::string::npos ? "none"
                                    : source.substr(begin, source.find("namespace", begin) - begin);
}

TEST(DescribeRecurrence, SaysTheEquationsInTheNamesOfTheCell) {
  EXPECT_EQ(description(R"(graph Gated() {
  input x: [64]
  param R_z: [64, 64]
  param R_n: [64, 64]
  param b: [64]
  state h: [64]
  %0 = input x : [64]
  %1 = param R_z : [64, 64]
  %2 = param R_n : [64, 64]
  %3 = param b : [64]
  %4 = state h @ 1 : [64]
  %5 = matmul %1, %4 : [64]
  %6 = add %5, %3 : [64]
  %7 = sigmoid %6 : [64]
  %8 = matmul %2, %4 : [64]
  %9 = add %8, %0 : [64]
  %10 = tanh %9 : [64]
  %11 = sub %4, %10 : [64]
  %12 = mul %7, %11 : [64]
  %13 = add %12, %10 : [64]
  %14 = const 0 : []
  init h = %14
  next h = %13
  output h = %13
}
)"),
            R"(// r0, of Gated:
//   phase 0, rows of 64 elements
//     weights0_0: R_z|R_n, by h[t-1]
//     value7 = tanh(R_n h[t-1] + x[t])
//     value11 = (sigmoid(R_z h[t-1] + b) * (last h - value7)) + value7
//     h[t] = value11
//     h = value11
//     h[t] = value11
)");
}

TEST(DescribeRecurrence, NamesWhatIsUsedTwiceAndReductions) {
  EXPECT_EQ(description(R"(graph Norm() {
  param R: [64, 64]
  state h: [64]
  %0 = param R : [64, 64]
  %1 = state h @ 1 : [64]
  %2 = matmul %0, %1 : [64]
  %3 = mean %2 : []
  %4 = sub %2, %3 : [64]
  %5 = const 0.5 : []
  %6 = max %4, %5 : [64]
  %7 = mul %6, %6 : [64]
  %8 = const 0 : []
  init h = %8
  next h = %7
  output y = %7
}
)"),
            R"(// r0, of Norm:
//   phase 0, rows of 64 elements
//     weights0_0: R, by h[t-1]
//     value4 = max(R h[t-1] - mean(R h[t-1]), 0.5)
//     value5 = value4 * value4
//     y[t] = value5
//     h = value5
//     h[t] = value5
)");
}

}  // namespace
}  // namespace rnnc::test
