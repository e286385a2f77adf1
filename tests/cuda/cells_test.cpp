// Every shipped cell compiles, without a GPU. Architectures and element types take turns, so that
// each pair of them has several cells.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/cuda/cuda_code.h"
#include "passes/build_plan.h"
#include "passes/graph/pipeline.h"
#include "tests/support/cells/golden_cases.h"

namespace rnnc::test {
namespace {

class CudaCells : public testing::TestWithParam<std::string> {};

TEST_P(CudaCells, Compile) {
  constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};
  const auto turn =
      static_cast<size_t>(std::ranges::find(golden_cells(), GetParam()) - golden_cells().begin());
  const size_t archs = supported_cuda_archs().size();
  const std::string arch = supported_cuda_archs()[turn % archs];
  const DType dtype = kTypes[turn / archs % std::size(kTypes)];
  Result<Graph> graph = golden_graph(golden_cases(GetParam(), {DType::f32}).back());
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ASSERT_TRUE(run_pipeline(*graph).has_value());
  const Result<Plan> plan = build_plan(*graph, {.dtype = dtype, .batch = 16, .max_steps = 8});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const Result<std::string> cubin = compile_cubin(*emit_cuda(*plan, arch), arch);
  EXPECT_TRUE(cubin.has_value()) << to_string(dtype) << " on " << arch << "\n"
                                 << cubin.error().message;
}

INSTANTIATE_TEST_SUITE_P(All, CudaCells, testing::ValuesIn(golden_cells()),
                         [](const auto& cell) { return cell.param; });

}  // namespace
}  // namespace rnnc::test
