// States begin in one launch, and end in one, as long as their parameters fit.
#include "codegen/cuda/elementwise/state_kernel.h"

#include <gtest/gtest.h>

#include "codegen/cuda/cuda_code.h"
#include "codegen/cuda/device/kernel_text.h"
#include "ir/graph/text.h"
#include "passes/build_plan.h"
#include "tests/cuda/modules.h"

namespace rnnc::test {
namespace {

/// Each state the one before it, a step later, but for the first.
Plan plan_of(size_t states, DType dtype) {
  std::string text = "graph Chain() {\n  input x: [5]\n";
  for (size_t i = 0; i < states; ++i) text += fmt::format("  state s{}: [5]\n", i);
  text += "  %0 = input x : [5]\n";
  for (size_t i = 0; i < states; ++i) {
    text += fmt::format("  %{} = state s{} @ 1 : [5]\n", i + 1, i);
  }
  const size_t init = states + 1;
  text += fmt::format("  %{} = const 0.5 : []\n", init);
  for (size_t i = 0; i < states; ++i) text += fmt::format("  init s{} = %{}\n", i, init);
  for (size_t i = 0; i < states; ++i) text += fmt::format("  next s{} = %{}\n", i, i);
  text += fmt::format("  output y = %{}\n}}\n", states);
  const Result<Graph> graph = parse_graph(text);
  RNNC_CHECK(graph.has_value(), "{}", graph.error().message);
  Result<Plan> plan = build_plan(*graph, {.dtype = dtype, .batch = 3, .max_steps = 9});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

TEST(CudaStateKernel, TakesAllStates) {
  const Plan plan = plan_of(3, DType::bf16);
  const CudaStateKernel states(plan);
  CudaModule alone(plan);
  states.add_to(alone);
  ASSERT_EQ(alone.states, 0u);
  EXPECT_EQ(shapes<CudaStatesShape>(alone).at(0).most_instances, 3u);
  const std::string code = emit_cuda(plan, "sm_90").value();
  EXPECT_NE(code.find(alone.kernels[0].name), std::string::npos);
  for (const StatePlan& state : plan.states) {
    for (const auto* launch : {&state.init_given, &state.init_declared, &state.write_final}) {
      EXPECT_NE(alone.source.find(fmt::format("case {}:", launch->kernel)), std::string::npos);
      if (!states.has_alone(launch->kernel)) continue;
      const std::string name = cuda_kernel_name(launch->kernel) + "(const rnnc_rows";
      EXPECT_EQ(code.find(name), std::string::npos) << name;
    }
  }
  const Result<std::string> cubin = compile_cubin(code, "sm_90");
  EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
}

TEST(CudaStateKernel, HasParametersOfLimitedSize) {
  const Plan plan = plan_of(100, DType::f32);
  const CudaStatesShape shape = shapes<CudaStatesShape>(*make_cuda_module(plan)).at(0);
  EXPECT_GT(shape.most_instances, 1u);
  EXPECT_LT(shape.most_instances, 100u);
  EXPECT_LE(shape.most_instances * shape.instance_bytes, 4096u);
}

TEST(CudaStateKernel, IsNotThereWithoutStates) {
  const Result<Graph> graph = parse_graph(
      "graph Map() {\n  input x: [5]\n  %0 = input x : [5]\n  %1 = tanh %0 : [5]\n"
      "  output y = %1\n}\n");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  const Result<Plan> plan = build_plan(*graph, {.batch = 3, .max_steps = 9});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const Result<CudaModule> module = make_cuda_module(*plan);
  ASSERT_TRUE(module.has_value()) << module.error().message;
  EXPECT_EQ(module->states, kNoCudaKernel);
  EXPECT_EQ(module->source.find("rnnc_states"), std::string::npos);
}

}  // namespace
}  // namespace rnnc::test
