// Kernels of recurrences with resident weights: a fixed sample compiles for every architecture,
// without a GPU. What they compute is tested in tests/gpu.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "codegen/cuda/cuda_code.h"
#include "codegen/cuda/persistent/recurrence_kernels.h"
#include "passes/build_plan.h"
#include "tests/cuda/modules.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/cells/networks.h"

namespace rnnc::test {
namespace {

struct Sample {
  const char* cell;
  DType dtype;
  bool tf32;
  int64_t hidden, batch;
  bool (*tile)(const RecurrenceTile&) = nullptr;  // what it is a sample of, if not the cell
};

/// For an H200.
Plan plan_of(const Sample& sample) {
  GoldenCase golden_case = golden_cases(sample.cell, {DType::f32}).back();
  golden_case.size.dims["H"] = sample.hidden;
  const Result<Graph> graph = golden_graph(golden_case);
  RNNC_CHECK(graph.has_value(), "{}", graph.error().message);
  Result<Plan> plan = build_plan(*graph, {.dtype = sample.dtype,
                                          .batch = sample.batch,
                                          .max_steps = 64,
                                          .tf32 = sample.tf32,
                                          .passes = PassSet::all(),
                                          .machine = h200_machine()});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

CudaModule recurrence_module(const Plan& plan) {
  CudaModule module(plan);
  add_recurrence_kernels(plan, module);
  return module;
}

class CudaRecurrences : public testing::TestWithParam<std::tuple<std::string, Sample>> {};

TEST_P(CudaRecurrences, Compile) {
  const auto& [arch, sample] = GetParam();
  const Plan plan = plan_of(sample);
  const auto kernels = shapes<CudaRecurrenceShape>(recurrence_module(plan));
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_LE(kernels[0].shared_bytes, h200_machine().shared_bytes);
  EXPECT_LE(kernels[0].blocks, h200_machine().units);
  for (const Stage& stage : plan.stages) {
    if (!is_resident(stage) || !sample.tile) continue;
    const RecurrenceTile& tile = std::get<RecurrenceLaunch>(stage.launches[0]).tile;
    EXPECT_TRUE(sample.tile(tile)) << to_string(tile);
  }
  const Result<std::string> source = emit_cuda(plan, arch);
  ASSERT_TRUE(source.has_value()) << source.error().message;
  const Result<std::string> cubin = compile_cubin(*source, arch);
  EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
}

// One of each engine; one and two phases; reductions; an odd size; weights in shared memory, and
// streamed; split products of many passes; layers that are sides; warps that share gates, or have
// all gates of their elements; clusters; what phases of another length gather.
constexpr Sample kSamples[] = {
    {"LSTM", DType::bf16, false, 1024, 16},
    {"LSTM", DType::f32, false, 512, 16},
    {"LSTM", DType::f32, true, 33, 3},
    {"GRUResetBefore", DType::f16, false, 300, 33},
    {"LayerNormLSTM", DType::bf16, false, 256, 16},
    {"LSTM", DType::bf16, false, 2048, 16},
    {"LSTM", DType::f32, false, 1800, 1,
     [](const RecurrenceTile& tile) { return tile.streamed_words > 0; }},
    {"LSTM", DType::f32, false, 640, 100, [](const RecurrenceTile& tile) { return tile.split; }},
    {"StackedGRU", DType::f16, false, 160, 4,
     [](const RecurrenceTile& tile) { return tile.sides.size() > 1; }},
    {"GRU", DType::f16, false, 128, 36,
     [](const RecurrenceTile& tile) { return tile.k_warps < tile.warps; }},
    {"LSTM", DType::bf16, false, 256, 16, [](const RecurrenceTile& tile) { return tile.clusters; }},
    {"LSTM", DType::f32, false, 256, 1, [](const RecurrenceTile& tile) { return tile.clusters; }},
    {"GRU", DType::bf16, false, 64, 40, [](const RecurrenceTile& tile) { return tile.own_sums; }},
    {"LMU", DType::f16, false, 200, 16},
};
std::string case_name(const testing::TestParamInfo<std::tuple<std::string, Sample>>& test) {
  const auto& [arch, sample] = test.param;
  return fmt::format("{}_{}_{}{}_{}", arch, sample.cell, to_string(sample.dtype),
                     sample.tf32 ? "_tf32" : "", sample.hidden);
}
INSTANTIATE_TEST_SUITE_P(All, CudaRecurrences,
                         testing::Combine(testing::ValuesIn(supported_cuda_archs()),
                                          testing::ValuesIn(kSamples)),
                         case_name);

TEST(CudaRecurrenceKernels, LayersShareOne) {
  Plan plan = plan_of({"LSTM", DType::bf16, false, 64, 4});
  const auto resident = std::ranges::find_if(plan.stages, [](const Stage& stage) {
    return std::holds_alternative<RecurrenceLaunch>(stage.launches[0]);
  });
  ASSERT_NE(resident, plan.stages.end());
  plan.stages.push_back(Stage(*resident));
  auto& second = std::get<RecurrenceLaunch>(plan.stages.back().launches[0]);
  EXPECT_EQ(recurrence_module(plan).kernels.size(), 1u);
  second.tile.warps *= 2;
  const CudaModule module = recurrence_module(plan);
  EXPECT_EQ(module.kernels.size(), 2u);
  EXPECT_EQ(module.of({plan.stages.size() - 1, 0}).kernel, 1u);
}

/// Of `layers` LSTMs on an H200.
Plan stack_of(size_t layers) {
  Result<Plan> plan = build_plan(tower(std::vector<std::string>(layers, "Gated"), 256),
                                 {.dtype = DType::bf16,
                                  .batch = 4,
                                  .max_steps = 64,
                                  .passes = PassSet::all(),
                                  .machine = h200_machine()});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

// The first layer, those in between, the last: code does not grow with the number of layers.
TEST(CudaRecurrenceKernels, LikeSidesShareTheirCode) {
  const auto code = [](size_t layers) {
    const Plan plan = stack_of(layers);
    CudaModule module = recurrence_module(plan);
    EXPECT_EQ(module.kernels.size(), 1u);
    return std::move(module.source);
  };
  const auto count = [](const std::string& text, std::string_view what) {
    size_t found = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count(code(2), "for (int t = 0;"), 2u);
  EXPECT_EQ(count(code(4), "for (int t = 0;"), 3u);
  EXPECT_EQ(count(code(7), "for (int t = 0;"), 3u);
}

// One that reduces is a single block there, which joins its own parts.
TEST(CudaRecurrenceKernels, StacksOfUnlikeLayersCompile) {
  for (const int64_t hidden : {7, 33}) {
    const std::vector<std::string> cells = {"Dense",  "Gated",     "ResetBefore",
                                            "Normed", "Projected", "Update"};
    const Result<Plan> plan = build_plan(tower(cells, hidden), {.dtype = DType::f32,
                                                                .batch = 3,
                                                                .max_steps = 11,
                                                                .passes = PassSet::all(),
                                                                .machine = h200_machine()});
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    EXPECT_EQ(recurrence_module(*plan).kernels.size(), 1u);
    const Result<std::string> cubin = compile_cubin(*emit_cuda(*plan, "sm_90"), "sm_90");
    EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
  }
}

// As they are asked for, where others would be chosen too.
TEST(CudaRecurrenceKernels, StrategiesCompile) {
  for (const StrategyInfo& info : all_strategies()) {
    if (is_of_loops(info.strategy)) continue;
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(fmt::format("{}, {}", info.name, to_string(dtype)));
      const size_t layers = info.strategy == Strategy::Stacked ? 2 : 1;
      const int64_t hidden = info.strategy == Strategy::Hybrid ? 1000 : 57;
      const Result<Plan> plan = build_plan(tower(std::vector<std::string>(layers, "Gated"), hidden),
                                           {.dtype = dtype,
                                            .batch = 9,
                                            .max_steps = 11,
                                            .machine = h200_machine(),
                                            .strategy = info.strategy});
      ASSERT_TRUE(plan.has_value()) << plan.error().message;
      const Result<std::string> cubin = compile_cubin(*emit_cuda(*plan, "sm_90"), "sm_90");
      EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
    }
  }
}

// Where blocks exchange through memory, each refreshes what it will store, and the pad behind it.
TEST(CudaRecurrenceKernels, RefreshWhatTheyWillHandOn) {
  const auto text = [](Strategy strategy, int64_t hidden) {
    const Result<Plan> plan = build_plan(tower({"Gated"}, hidden), {.dtype = DType::bf16,
                                                                    .batch = 9,
                                                                    .max_steps = 11,
                                                                    .machine = h200_machine(),
                                                                    .strategy = strategy});
    RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
    return *emit_cuda(*plan, "sm_90");
  };
  constexpr std::string_view kRefreshes = "char* const later =";
  EXPECT_NE(text(Strategy::Grid, 64).find(kRefreshes), std::string::npos);
  EXPECT_EQ(text(Strategy::Cluster, 64).find(kRefreshes), std::string::npos);
  // 57 halves are 29 words, which end 20 bytes into a sector; 64 end where one does.
  EXPECT_NE(text(Strategy::Grid, 57).find(">= 57u) rnnc_refresh_pad<20>"), std::string::npos);
  EXPECT_EQ(text(Strategy::Grid, 64).find("u) rnnc_refresh_pad<"), std::string::npos);
}

TEST(CudaRecurrenceKernels, StacksCompile) {
  const Plan plan = stack_of(5);
  const Result<std::string> source = emit_cuda(plan, "sm_90");
  ASSERT_TRUE(source.has_value()) << source.error().message;
  const Result<std::string> cubin = compile_cubin(*source, "sm_90");
  EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
}

}  // namespace
}  // namespace rnnc::test
