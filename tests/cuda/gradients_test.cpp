// Units of both halves of a derivative: they compile for every architecture, without a GPU, and
// have what steps that run backwards need; types take turns. What they compute is tested in
// tests/gpu.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/cuda/cuda_code.h"
#include "codegen/cuda/device/cuda_module.h"
#include "passes/build_plan.h"
#include "passes/gradient/differentiate.h"
#include "passes/graph/pipeline.h"
#include "tests/support/cells/networks.h"

namespace rnnc::test {
namespace {

struct Halves {
  Plan forward, backward;
};

Plan plan_of(Graph half, const PlanOptions& options) {
  const Status simplified = run_simplifications(half, {.passes = options.passes});
  RNNC_CHECK(simplified.has_value(), "{}", simplified.error().message);
  Result<Plan> plan = plan_graph(half, options);
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

Halves halves_of(Graph graph, PlanOptions options) {
  options.max_steps = 64;
  options.machine = h200_machine();
  const Status lowered = run_pipeline(graph, {.training = true});
  RNNC_CHECK(lowered.has_value(), "{}", lowered.error().message);
  const std::vector<bool> none(graph.states.size(), false);
  const Derivative derivative = differentiate(graph, DifferentiateOptions::all(graph, none));
  return {plan_of(derivative.forward, options), plan_of(derivative.backward, options)};
}

CudaModule module_of(const Plan& plan) {
  return make_cuda_module(plan).value();
}

bool has(const CudaModule& module, std::string_view text) {
  return module.source.find(text) != std::string::npos;
}

std::string end_chunk_of(const CudaModule& module) {
  return module.kernels[module.end_chunk].name;
}

class CudaGradients : public testing::TestWithParam<size_t> {};

TEST_P(CudaGradients, Compile) {
  constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};
  const std::string& arch = supported_cuda_archs()[GetParam()];
  size_t turn = GetParam();
  for (const std::string cell : {"Gated", "Normed", "ResetBefore", "Elementwise"}) {
    const DType dtype = kTypes[turn++ % 3];
    SCOPED_TRACE(fmt::format("{} in {}", cell, to_string(dtype)));
    const PassSet passes = turn % 4 == 0 ? PassSet::all().without(Pass::Resident) : PassSet::all();
    const Halves halves =
        halves_of(tower({cell}, 40), {.dtype = dtype, .batch = 8, .passes = passes});
    for (const Plan* plan : {&halves.forward, &halves.backward}) {
      const Result<std::string> source = emit_cuda(*plan, arch);
      ASSERT_TRUE(source.has_value()) << source.error().message;
      const Result<std::string> cubin = compile_cubin(*source, arch);
      EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaGradients,
                         testing::Range(size_t{0}, supported_cuda_archs().size()),
                         [](const auto& arch) { return supported_cuda_archs()[arch.param]; });

TEST(CudaGradientUnits, OfRecurrencesGoFromStepToStepBackwards) {
  const Halves halves = halves_of(tower({"Gated"}, 40), {.batch = 8});
  const CudaModule forward = module_of(halves.forward);
  EXPECT_EQ(end_chunk_of(forward), "rnnc_end_chunk");
  EXPECT_FALSE(has(forward, "rnnc_at_step"));
  EXPECT_FALSE(has(forward, kCudaTotalName));
  const CudaModule backward = module_of(halves.backward);
  EXPECT_EQ(end_chunk_of(backward), "rnnc_end_descending_chunk");
  EXPECT_TRUE(has(backward, "rnnc_at_step<float, 160, -1280>(launch.access[first + "));
  EXPECT_TRUE(has(backward, "kAdvance = -1280;"));
  EXPECT_TRUE(has(backward, kCudaTotalName));
}

TEST(CudaGradientUnits, OfLoopsGoFromStepToStepBackwards) {
  const Halves halves =
      halves_of(tower({"Elementwise"}, 40), {.batch = 8, .strategy = Strategy::Loop});
  const auto has_loop = [](const CudaModule& module) {
    return std::ranges::any_of(module.kernels, [](const CudaKernel& kernel) {
      return std::holds_alternative<CudaLoopShape>(kernel.shape);
    });
  };
  for (const Plan* plan : {&halves.forward, &halves.backward}) {
    const CudaModule module = module_of(*plan);
    EXPECT_TRUE(has_loop(module));
    EXPECT_EQ(has(module, " = -1ll * rows.count * p"), plan->descending);
    EXPECT_EQ(has(module, " = rows.count * p"), !plan->descending);
  }
}

/// Outer products are the library's.
TEST(CudaGradientUnits, HaveAKernelForSumsOfRowsAlone) {
  const Halves halves = halves_of(tower({"Gated"}, 40), {.batch = 8});
  const CudaModule module = module_of(halves.backward);
  int sums = 0;
  int products = 0;
  for_each_launch_of<TotalLaunch>(halves.backward, [&](LaunchId id, const TotalLaunch& total) {
    const uint32_t kernel = module.of(id).kernel;
    if (total.right.buffer != kNoBuffer) {
      EXPECT_EQ(kernel, kNoCudaKernel);
      ++products;
    } else {
      EXPECT_EQ(module.kernels.at(kernel).name, kCudaTotalName);
      ++sums;
    }
  });
  EXPECT_GE(sums, 1);
  EXPECT_GE(products, 1);
}

}  // namespace
}  // namespace rnnc::test
