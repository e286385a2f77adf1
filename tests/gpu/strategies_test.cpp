// Each strategy that can be asked for, against the interpreter: odd sizes and batches, lengths and
// resets.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "passes/tile/recurrence_tiles.h"
#include "tests/gpu/graphs.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/sequence_cases.h"

namespace rnnc::test {
namespace {

using StrategyCase = std::tuple<Strategy, DType>;

class GpuStrategies : public testing::TestWithParam<StrategyCase> {
 protected:
  CompileOptions options() const {
    const auto [strategy, dtype] = GetParam();
    return {.dtype = dtype,
            .device = {.kind = Device::Kind::cuda, .index = 0},
            .cache_directory = std::filesystem::path(testing::TempDir()) / "rnnc-gpu-strategies",
            .chunk = 4,
            .passes = PassSet::all(),
            .strategy = strategy};
  }
  double tolerance() const {
    if (std::get<DType>(GetParam()) == DType::f32) return 3e-5;
    return std::get<DType>(GetParam()) == DType::bf16 ? 3e-2 : 6e-3;
  }
  /// Of that size; layers if stacked. For weights to be too many it depends on the GPU how many.
  Graph graph(int64_t size, int64_t batch) const {
    const Strategy strategy = std::get<Strategy>(GetParam());
    if (strategy == Strategy::Stacked) return tower({"Gated", "Update", "Dense"}, size);
    if (strategy != Strategy::Hybrid) return lstm_graph(5, size);
    for (const int64_t times : {4, 12, 30, 57}) {
      Result<Program> program = Program::compile(lstm_graph(5, times * size), options());
      RNNC_CHECK(program.has_value(), "{}", program.error().message);
      if (program->prepare(batch, 9)) return lstm_graph(5, times * size);
    }
    ADD_FAILURE() << "no size is streamed";
    return lstm_graph(5, size);
  }
  /// The program runs as asked for.
  void expect_strategy(const Graph& graph, int64_t batch) const {
    Result<Program> program = Program::compile(graph, options());
    ASSERT_TRUE(program.has_value()) << program.error().message;
    const Status prepared = program->prepare(batch, 9);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    int64_t count = 0;
    for (const Stage& stage : program->prepared(batch, 9)->plan->stages) {
      if (!is_resident(stage)) continue;
      ++count;
      EXPECT_EQ(strategy_of(std::get<RecurrenceLaunch>(stage.launches[0])),
                std::get<Strategy>(GetParam()));
    }
    EXPECT_EQ(count, 1);
  }
};

TEST_P(GpuStrategies, OfOddSizesAndBatches) {
  for (const auto& [size, batch] :
       {std::pair<int64_t, int64_t>{3, 1}, {7, 17}, {33, 5}, {50, 16}}) {
    SCOPED_TRACE(fmt::format("size {}, batch {}", size, batch));
    if (std::get<Strategy>(GetParam()) == Strategy::Hybrid && (size < 33 || batch > 5)) continue;
    const Graph graph = this->graph(size, batch);
    expect_strategy(graph, batch);
    check_run(graph, options(), random_sequences(9, batch, {}, true, 3), tolerance());
  }
}

TEST_P(GpuStrategies, OfLengthsAndResets) {
  const SequenceFeatures features = {.lengths = true, .resets = true};
  check_run(graph(33, 5), options(), random_sequences(11, 5, features, true, 2), tolerance());
}

// Sequences shorter and longer than the delays, in chunks that are shorter.
TEST_P(GpuStrategies, OfLongDelays) {
  const auto [strategy, dtype] = GetParam();
  // Blocks keep two steps of what they hand to themselves.
  if (strategy == Strategy::Block) GTEST_SKIP() << "hands on what was made a step before at most";
  if (strategy == Strategy::Hybrid) GTEST_SKIP() << "of a size that depends on the GPU";
  for (const std::string cell : {"Dilated", "Skip"}) {
    std::vector<std::string> cells = {cell};
    if (strategy == Strategy::Stacked) cells.insert(cells.end(), {"Update", "Dilated"});
    for (const auto& [size, batch] : {std::pair<int64_t, int64_t>{24, 3}, {33, 17}}) {
      SCOPED_TRACE(fmt::format("{} of {}, batch {}", cell, size, batch));
      expect_strategy(tower(cells, size), batch);
      for (const auto& [steps, lengths] : {std::pair{7, false}, {29, false}, {29, true}}) {
        const Sequences sequences =
            random_sequences(steps, batch, {.lengths = lengths}, /*given_states=*/true, 3);
        check_run(tower(cells, size), options(), sequences, tolerance());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuStrategies,
                         testing::Combine(testing::Values(Strategy::Block, Strategy::Cluster,
                                                          Strategy::Grid, Strategy::Hybrid,
                                                          Strategy::SplitK, Strategy::Stacked),
                                          testing::Values(DType::f32, DType::bf16, DType::f16)),
                         [](const auto& test) {
                           std::string name(to_string(std::get<Strategy>(test.param)));
                           std::ranges::replace(name, '-', '_');
                           return name + '_' + std::string(to_string(std::get<DType>(test.param)));
                         });

}  // namespace
}  // namespace rnnc::test
