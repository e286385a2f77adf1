// Kernels of scan launches compile for every architecture, without a GPU. What they compute is tested
// in tests/gpu.
#include <gtest/gtest.h>

#include "codegen/cuda/cuda_code.h"
#include "passes/build_plan.h"
#include "passes/gradient/differentiate.h"
#include "passes/graph/pipeline.h"
#include "tests/cuda/modules.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/cells/loop_cells.h"

namespace rnnc::test {
namespace {

class CudaScans : public testing::TestWithParam<size_t> {};

TEST_P(CudaScans, Compile) {
  const std::string& arch = supported_cuda_archs()[GetParam()];
  constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};
  constexpr const char* kCells[] = {"MinGRU", "RWKV4", "MinLSTM"};
  GoldenCase golden;
  golden.cell = kCells[GetParam() % std::size(kCells)];
  golden.size.dims = {{"I", 11}, {"H", 17}};
  const Result<Graph> graph = golden_graph(golden);
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  const Result<Plan> plan = build_plan(*graph, {.dtype = kTypes[GetParam() % std::size(kTypes)],
                                                .batch = 3,
                                                .max_steps = 500,
                                                .lengths = true,
                                                .resets = true,
                                                .machine = h200_machine(),
                                                .strategy = Strategy::Scan});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const Result<std::string> source = emit_cuda(*plan, arch);
  ASSERT_TRUE(source.has_value()) << source.error().message;
  EXPECT_NE(source->find("struct scan0_scan {"), std::string::npos);
  const Result<std::string> cubin = compile_cubin(*source, arch);
  EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
}

/// With totals; of Turning two states share a round.
TEST_P(CudaScans, CompileWithTotals) {
  const std::string& arch = supported_cuda_archs()[GetParam()];
  constexpr DType kTypes[] = {DType::bf16, DType::f32, DType::f16};
  constexpr const char* kCells[] = {"Turning", "Weighted", "Floor"};
  Graph graph = loop_cell(kCells[GetParam() % std::size(kCells)], 17);
  ASSERT_TRUE(run_pipeline(graph, {.training = true}));
  const Graph half = differentiate(graph, DifferentiateOptions::all(graph, {})).backward;
  const Result<Plan> plan = plan_graph(half, {.dtype = kTypes[GetParam() % std::size(kTypes)],
                                              .batch = 3,
                                              .max_steps = 500,
                                              .machine = h200_machine(),
                                              .strategy = Strategy::Scan});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const Result<std::string> source = emit_cuda(*plan, arch);
  ASSERT_TRUE(source.has_value()) << source.error().message;
  EXPECT_EQ(source->find("kTotals = 0;"), std::string::npos);
  EXPECT_NE(source->find("rnnc_total("), std::string::npos);
  const Result<std::string> cubin = compile_cubin(*source, arch);
  EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
}

/// States of the step before are read from outputs, which begin with zeros.
TEST_P(CudaScans, CompileWithOutputsOfTheStepBefore) {
  const std::string& arch = supported_cuda_archs()[GetParam()];
  constexpr DType kTypes[] = {DType::bf16, DType::f32, DType::f16};
  GoldenCase golden;
  golden.cell = "RGLRU";
  golden.size.dims = {{"H", 18}};
  Result<Graph> graph = golden_graph(golden);
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ASSERT_TRUE(run_pipeline(*graph, {.training = true}));
  DifferentiateOptions options = DifferentiateOptions::all(*graph, {});
  options.outputs = true;
  const Result<Plan> plan = plan_graph(differentiate(*graph, options).backward,
                                       {.dtype = kTypes[GetParam() % std::size(kTypes)],
                                        .batch = 3,
                                        .max_steps = 500,
                                        .machine = h200_machine(),
                                        .strategy = Strategy::Scan});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const Result<std::string> source = emit_cuda(*plan, arch);
  ASSERT_TRUE(source.has_value()) << source.error().message;
  EXPECT_NE(source->find("int begin;"), std::string::npos);
  const Result<std::string> cubin = compile_cubin(*source, arch);
  EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
}

INSTANTIATE_TEST_SUITE_P(All, CudaScans, testing::Range(size_t{0}, supported_cuda_archs().size()),
                         [](const auto& arch) { return supported_cuda_archs()[arch.param]; });

}  // namespace
}  // namespace rnnc::test
