// Every shipped cell compiles for every architecture, in every element type, without a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "codegen/cuda/cuda_code.h"
#include "frontend/unit.h"
#include "passes/build_plan.h"
#include "passes/pipeline.h"
#include "runtime/files.h"

namespace rnnc::test {
namespace {

namespace fs = std::filesystem;

struct Case {
  fs::path file;
  std::string arch;
};

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const auto& entry : fs::directory_iterator(fs::path(RNNC_SOURCE_DIR) / "examples")) {
    if (entry.path().extension() != ".rnn") continue;
    for (const std::string& arch : supported_cuda_archs()) result.push_back({entry.path(), arch});
  }
  std::ranges::sort(result, {}, [](const Case& one) { return one.file.string() + one.arch; });
  return result;
}

/// Values for the dims that have none.
DimBindings some_dims(const Graph& graph) {
  DimBindings dims;
  for (const DimDecl& dim : graph.dims) {
    if (!dim.default_value) dims[dim.name] = 12;
  }
  return dims;
}

class CudaCells : public testing::TestWithParam<Case> {};

TEST_P(CudaCells, Compile) {
  const Result<std::string> text = read_file(GetParam().file);
  ASSERT_TRUE(text.has_value());
  Unit unit(GetParam().file.filename().string(), *text);
  for (const std::string& name : unit.definitions()) {
    std::optional<Graph> graph = unit.lower(name, {});
    ASSERT_TRUE(graph.has_value()) << unit.render();
    graph->bind(*complete_bindings(*graph, some_dims(*graph)));
    ASSERT_TRUE(run_pipeline(*graph).has_value());
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const Result<Plan> plan = build_plan(*graph, {.dtype = dtype, .batch = 16, .max_steps = 8});
      ASSERT_TRUE(plan.has_value()) << plan.error().message;
      const Result<std::string> cubin = compile_cubin(*emit_cuda(*plan), GetParam().arch);
      EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaCells, testing::ValuesIn(cases()), [](const auto& one) {
  return one.param.file.stem().string() + "_" + one.param.arch;
});

}  // namespace
}  // namespace rnnc::test
