// Kernels of loop launches: their text, and that they compile for every architecture, without a
// GPU; types and sizes take turns. What they compute is tested in tests/gpu.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <regex>
#include <string>

#include "codegen/cuda/cuda_code.h"
#include "codegen/cuda/elementwise/loop_kernels.h"
#include "frontend/unit.h"
#include "passes/build_plan.h"
#include "tests/cuda/fused_plans.h"
#include "tests/cuda/modules.h"

namespace rnnc::test {
namespace {

struct LoopCase {
  DType dtype = DType::f32;
  int64_t batch = 1;
  int64_t length = 1;
};

CudaModule loop_module(const Plan& plan) {
  CudaModule module(plan);
  add_loop_kernels(plan, module);
  return module;
}

class CudaLoops : public testing::TestWithParam<size_t> {};

TEST_P(CudaLoops, Compile) {
  constexpr LoopCase kCases[] = {{DType::f32, 3, 7}, {DType::bf16, 64, 1024}, {DType::f16, 5, 33}};
  const std::string& arch = supported_cuda_archs()[GetParam()];
  const auto& [dtype, batch, length] = kCases[GetParam() % std::size(kCases)];
  const Result<std::string> source = emit_cuda(loop_plan(dtype, batch, length), arch);
  ASSERT_TRUE(source.has_value()) << source.error().message;
  const Result<std::string> cubin = compile_cubin(*source, arch);
  EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
}

INSTANTIATE_TEST_SUITE_P(All, CudaLoops, testing::Range(size_t{0}, supported_cuda_archs().size()),
                         [](const auto& arch) { return supported_cuda_archs()[arch.param]; });

TEST(CudaLoopKernels, TakePairsOfHalvesWhereThereAreEnough) {
  const auto shape_of = [](DType dtype, int64_t batch, int64_t length) {
    const Plan plan = loop_plan(dtype, batch, length);
    return shapes<CudaLoopShape>(loop_module(plan)).at(0).shape;
  };
  EXPECT_EQ(shape_of(DType::bf16, 64, 1024).length, 512);
  EXPECT_EQ(shape_of(DType::bf16, 8, 1024).length, 1024);
  EXPECT_EQ(shape_of(DType::bf16, 128, 1023).length, 1023);
  EXPECT_EQ(shape_of(DType::f32, 64, 1024).length, 1024);
}

TEST(CudaLoopKernels, StepInRegistersWithLoadsAhead) {
  const Plan plan = loop_plan(DType::f32, 2, 40);
  const std::string code = loop_module(plan).source;
  const auto has = [&code](const std::string& text) {
    EXPECT_NE(code.find(text), std::string::npos) << text << "\n" << code;
  };
  has("t0 n0 = t0::load(a0);");        // a carry
  has("const t3 i3 = t3::load(a3);");  // the same at every step
  has("t2 q2[32];");                   // 8 bytes per step, 256 on their way
  has("q2[d] = t2::load(a2 + later * d2);");
  has("n0 = o5;");
  has("n0.store(a5);");
  has("if (e == 0) n1.store(a6);");  // a carry per row
  // The kernel stands in the unit once: in its loop.
  const Result<std::string> source = emit_cuda(plan);
  ASSERT_TRUE(source.has_value());
  EXPECT_EQ(source->find("k0("), std::string::npos);
}

/// How many steps are on their way, in a loop with so many hyperbolic tangents a step.
int64_t depth_of(int turns) {
  Unit unit("deep.rnn", fmt::format("cell Deep[H](p: [H]) -> h {{\nstate h: [H]\nu = h[t-1]\n"
                                    "for i in 0..{} {{ u = tanh(u) + p[t] }}\nh[t] = u\n}}\n",
                                    turns));
  std::optional<Graph> graph = unit.lower("Deep", {{"H", 40}});
  RNNC_CHECK(graph.has_value(), "{}", unit.render());
  graph->bind({{"H", 40}});
  const Result<Plan> plan =
      build_plan(*graph, {.max_steps = 64, .machine = h200_machine(), .strategy = Strategy::Loop});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  const std::string code = loop_module(*plan).source;
  std::smatch queue;
  RNNC_CHECK(std::regex_search(code, queue, std::regex(R"(t\d+ q\d+\[(\d+)\];)")), "{}", code);
  return std::stoll(queue[1]);
}

TEST(CudaLoopKernels, CopyLongStepsFewTimes) {
  EXPECT_EQ(depth_of(1), 64);
  EXPECT_EQ(depth_of(5), 16);
  EXPECT_EQ(depth_of(20), 4);
  EXPECT_EQ(depth_of(100), 4);
  EXPECT_EQ(depth_of(150), 1);
}

TEST(CudaLoopKernels, LaunchesThatDifferInPlacesShareOne) {
  Plan plan = loop_plan(DType::f32, 2, 40);
  plan.stages.push_back(plan.stages[0]);
  auto& second = std::get<LoopLaunch>(plan.stages[1].launches[0]);
  second.accesses[2] = add_sequence(plan, Role::Input, 1, 80);
  EXPECT_EQ(loop_module(plan).kernels.size(), 1u);
  second.accesses[2] = add_buffer(plan, Extent::Invariant, DType::f32, 40);
  const CudaModule module = loop_module(plan);
  EXPECT_EQ(module.kernels.size(), 2u);
  EXPECT_EQ(module.of({1, 0}).kernel, 1u);
}

}  // namespace
}  // namespace rnnc::test
