// Kernels of scan launches compile for every architecture, without a GPU. What they compute is tested
// in tests/gpu.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "codegen/cuda/cuda_code.h"
#include "passes/build_plan.h"
#include "passes/gradient/differentiate.h"
#include "passes/graph/pipeline.h"
#include "tests/cuda/modules.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/cells/loop_cells.h"

namespace rnnc::test {
namespace {

/// A backward half's scans, for 3 sequences.
Result<Plan> plan_scans(const Graph& half, DType dtype) {
  return plan_graph(half, {.dtype = dtype,
                           .batch = 3,
                           .max_steps = 500,
                           .machine = h200_machine(),
                           .strategy = Strategy::Scan});
}

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
  const Result<Plan> plan = plan_scans(half, kTypes[GetParam() % std::size(kTypes)]);
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
  const Result<Plan> plan =
      plan_scans(differentiate(*graph, options).backward, kTypes[GetParam() % std::size(kTypes)]);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const Result<std::string> source = emit_cuda(*plan, arch);
  ASSERT_TRUE(source.has_value()) << source.error().message;
  EXPECT_NE(source->find("int begin;"), std::string::npos);
  const Result<std::string> cubin = compile_cubin(*source, arch);
  EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
}

/// How often `what` stands in a text.
size_t count_of(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

/// A thread's arrays, one by one or in pairs of channels, are known to be in global memory.
TEST(CudaScanLoads, AreFromGlobalMemory) {
  for (const int64_t units : {17, 2052}) {
    GoldenCase golden;
    golden.cell = "MinLSTM";
    golden.size.dims = {{"I", 11}, {"H", units}};
    Result<Graph> graph = golden_graph(golden);
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    ASSERT_TRUE(run_pipeline(*graph, {.training = true}));
    const Graph half = differentiate(*graph, DifferentiateOptions::all(*graph, {})).backward;
    const Result<Plan> plan = plan_scans(half, DType::bf16);
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    const Result<std::string> source = emit_cuda(*plan, "sm_90");
    ASSERT_TRUE(source.has_value()) << source.error().message;
    const Result<std::string> ptx = compile_ptx(*source, "sm_90");
    ASSERT_TRUE(ptx.has_value()) << ptx.error().message;
    std::string_view scan = *ptx;
    const size_t entry = scan.find(".entry scan0");
    ASSERT_NE(entry, std::string_view::npos);
    scan.remove_prefix(entry);
    scan = scan.substr(0, scan.find(".entry", 1));
    EXPECT_GT(count_of(scan, "ld.global."), 50);
    size_t anywhere = 0;
    for (const std::string_view type : {"b16", "u16", "f32", "b32", "u32", "v2", "v4", "b64"}) {
      anywhere += count_of(scan, fmt::format("\tld.{}", type));
    }
    EXPECT_LT(anywhere, 5);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaScans, testing::Range(size_t{0}, supported_cuda_archs().size()),
                         [](const auto& arch) { return supported_cuda_archs()[arch.param]; });

}  // namespace
}  // namespace rnnc::test
