// Units with sequence kernels and products of blocks compile for every architecture, without a GPU;
// the types take turns.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "codegen/cuda/cuda_code.h"
#include "codegen/cuda/device/cuda_module.h"
#include "ir/graph/text.h"
#include "passes/build_plan.h"
#include "passes/graph/pipeline.h"
#include "tests/support/cells/sequence_graphs.h"

namespace rnnc::test {
namespace {

Plan plan_of(Graph graph, const PlanOptions& options) {
  const Status simplified = run_pipeline(graph);
  RNNC_CHECK(simplified.has_value(), "{}", simplified.error().message);
  Result<Plan> plan = build_plan(graph, options);
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

bool has_blocks(const Plan& plan) {
  for (const Stage& stage : plan.stages) {
    for (const Launch& launch : stage.launches) {
      const auto* gemm = std::get_if<GemmLaunch>(&launch);
      if (gemm != nullptr && gemm->blocks > 1) return true;
    }
  }
  return false;
}

/// Names of the kernels of sequence.cuh that a module has.
std::set<std::string> sequence_kernels(const CudaModule& module) {
  std::set<std::string> names;
  for (const CudaKernel& kernel : module.kernels) {
    if (std::holds_alternative<CudaOwnShape>(kernel.shape)) names.insert(kernel.name);
  }
  names.erase(kCudaSetFrameName);
  names.erase("rnnc_end_chunk");
  names.erase("rnnc_end_descending_chunk");
  return names;
}

class CudaSequences : public testing::TestWithParam<size_t> {};

TEST_P(CudaSequences, Compile) {
  const std::string& arch = supported_cuda_archs()[GetParam()];
  size_t turn = GetParam();
  for (const std::string name : {"Bidirectional", "Blocks", "Derived"}) {
    const DType dtype = turn++ % 2 == 0 ? DType::f32 : DType::bf16;
    SCOPED_TRACE(fmt::format("{} in {}", name, to_string(dtype)));
    const Plan plan =
        plan_of(sequence_graph(name),
                {.dtype = dtype, .batch = 3, .max_steps = 8, .lengths = true, .resets = true});
    EXPECT_EQ(has_blocks(plan), name == "Blocks");
    const Result<CudaModule> module = make_cuda_module(plan, arch);
    ASSERT_TRUE(module.has_value()) << module.error().message;
    EXPECT_NE(sequence_kernels(*module), std::set<std::string>{});
    const Result<std::string> cubin = compile_cubin(module->source, arch);
    EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaSequences,
                         testing::Range(size_t{0}, supported_cuda_archs().size()),
                         [](const auto& arch) { return supported_cuda_archs()[arch.param]; });

// Nobody pays for others' launches, by compiling kernels for them.
TEST(CudaSequenceKernels, AreThoseThatAreLaunched) {
  using Names = std::set<std::string>;
  const auto of = [](const std::string& name, const PlanOptions& options) {
    const Plan plan = plan_of(sequence_graph(name), options);
    const CudaModule module = make_cuda_module(plan, "sm_90").value();
    const Names names = sequence_kernels(module);
    const Result<std::string> cubin = compile_cubin(module.source, "sm_90");
    EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
    for (const std::string kernel : {"rnnc_reverse_2", "rnnc_reverse_4", "rnnc_mask", "rnnc_split",
                                     "rnnc_transpose_2", "rnnc_transpose_4", "rnnc_copy_arrays"}) {
      // Where a kernel's code begins in the symbol table of the cubin.
      EXPECT_EQ(cubin->find(".text." + kernel) != std::string::npos, names.contains(kernel))
          << kernel;
    }
    return names;
  };
  EXPECT_EQ(of("Arrays", {}), Names{"rnnc_copy_arrays"});
  EXPECT_EQ(of("Arrays", {.lengths = true}), (Names{"rnnc_copy_arrays", "rnnc_mask"}));
  EXPECT_EQ(of("Arrays", {.resets = true}), (Names{"rnnc_copy_arrays", "rnnc_mask"}));
  EXPECT_EQ(of("Bidirectional", {}), (Names{"rnnc_copy_arrays", "rnnc_reverse_4"}));
  EXPECT_EQ(of("Bidirectional", {.dtype = DType::bf16}),
            (Names{"rnnc_copy_arrays", "rnnc_reverse_2", "rnnc_reverse_4"}));
  EXPECT_EQ(of("Derived", {}), Names{"rnnc_transpose_4"});
}

TEST(CudaSequenceKernels, SplitOperandsOfLargeProducts) {
  const Result<Graph> graph = parse_graph(R"(graph Elman() {
  input x: [1000]
  param W: [1000, 1000]
  param R: [1000, 1000]
  state h: [1000]
  %0 = input x : [1000]
  %1 = param W : [1000, 1000]
  %2 = param R : [1000, 1000]
  %3 = state h @ 1 : [1000]
  %4 = matmul %1, %0 : [1000]
  %5 = matmul %2, %3 : [1000]
  %6 = add %4, %5 : [1000]
  %7 = mean %6 : []
  %8 = sub %6, %7 : [1000]
  %9 = tanh %8 : [1000]
  %10 = const 0 : []
  init h = %10
  next h = %9
  output h = %9
}
)");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  PlanOptions options{.batch = 32, .max_steps = 100, .machine = h200_machine()};
  const std::string source = emit_cuda(plan_of(*graph, options), "sm_90").value();
  EXPECT_NE(source.find(kCudaSplitName), std::string::npos);
  EXPECT_NE(source.find("rnnc_resident_product"), std::string::npos);
  const Result<std::string> cubin = compile_cubin(source, "sm_90");
  EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
  options.passes = options.passes.without(Pass::Split);
  const CudaModule module = make_cuda_module(plan_of(*graph, options), "sm_90").value();
  EXPECT_EQ(sequence_kernels(module), std::set<std::string>{kCudaCopyName});
}

}  // namespace
}  // namespace rnnc::test
