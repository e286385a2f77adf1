// Random draws of a cell, shape, type, strategy, lengths and resets against the interpreter. Half
// of the cells are random graphs, half are shipped ones at random sizes; others are layers of
// cells, and wide ones:
//
//     RNNC_SOAK_DRAWS=500 rnnc_test_gpu --gtest_filter='GpuSoak*'
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <map>

#include "passes/options/strategy.h"
#include "tests/gpu/soak_draws.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/sequence_cases.h"

namespace rnnc::test {
namespace {

std::string layer(Dice& dice) {
  return dice.one_of({"Dense", "Normed", "Gated", "Projected", "Update", "ResetBefore"});
}

/// Layers of one kind, or of several.
Graph random_tower(Dice& dice) {
  std::vector<std::string> cells(static_cast<size_t>(1 + dice.up_to(7)), layer(dice));
  if (dice.one_in(2)) std::ranges::generate(cells, [&dice] { return layer(dice); });
  return tower(cells, dice.one_of<int64_t>({1, 3, 8, 16, 31, 48, 64, 130, 256}));
}

using Counts = std::map<Strategy, int>;

/// `drawn`, or the next one in turn that the program can run with; else Any, which it always can.
Strategy possible_strategy(Strategy drawn, const Graph& graph, CompileOptions options,
                           const Sequences& sequences) {
  if (drawn == Strategy::Any) return drawn;
  std::vector<Strategy> turns;
  for (const StrategyInfo& info : all_strategies()) turns.push_back(info.strategy);
  std::ranges::rotate(turns, std::ranges::find(turns, drawn));
  for (const Strategy strategy : turns) {
    options.strategy = strategy;
    const Status prepared = Program::compile(graph, options).and_then([&](Program made) -> Status {
      return made.prepare(sequences.batch, sequences.steps, sequences.features());
    });
    if (prepared) return strategy;
    const std::string reason = fmt::format("strategy `{}`", to_string(strategy));
    EXPECT_NE(prepared.error().message.find(reason), std::string::npos) << prepared.error().message;
  }
  return Strategy::Any;
}

/// The rest of a draw.
void run_graph(uint64_t seed, const Graph& graph, DType dtype, double tolerance, Dice& dice,
               Counts& counts) {
  CompileOptions options = {
      .dtype = dtype,
      .device = {.kind = Device::Kind::cuda, .index = 0},
      .cache_directory = std::filesystem::path(testing::TempDir()) / "rnnc-gpu-soak",
      .chunk = dice.one_in(2) ? 0 : dice.up_to(9),
      .passes = PassSet::all(),
      .graphs = !dice.one_in(4),
      .tile_rank = dice.one_in(2) ? 0 : dice.up_to(12)};
  if (dice.one_in(4)) options.passes = options.passes.without(Pass::Resident);
  if (dice.one_in(4)) options.passes = options.passes.without(Pass::Wavefront);
  const SequenceFeatures features = {.lengths = dice.one_in(2), .resets = dice.one_in(2)};
  const Sequences sequences =
      random_sequences(dice.up_to(20), dice.one_of<int64_t>({1, 2, 3, 5, 8, 9, 17, 33}), features,
                       dice.one_in(2), static_cast<uint32_t>(seed));
  const Strategy drawn =
      dice.one_of({Strategy::Any, Strategy::Block, Strategy::Cluster, Strategy::Grid,
                   Strategy::Hybrid, Strategy::SplitK, Strategy::Stacked});
  SCOPED_TRACE(
      fmt::format("seed {}: {}, {}, chunk {}, strategy {} or a later one, rank {}, "
                  "passes {}, {} steps, batch {}",
                  seed, graph.name, to_string(dtype), options.chunk, to_string(drawn),
                  options.tile_rank, options.passes.to_string(), sequences.steps, sequences.batch));
  options.strategy = possible_strategy(drawn, graph, options, sequences);
  ++counts[options.strategy];
  check_run(graph, options, sequences, tolerance, Cells::any);
}

void run_draw(uint64_t seed, Counts& counts) {
  Dice dice(seed);
  // Rounded to 16 bits, a random graph may well be far from what it computes in float64.
  const bool shipped = dice.one_in(2);
  const Graph graph = shipped ? shipped_cell(dice) : random_cell(seed, dice);
  const DType dtype = shipped ? dice.one_of({DType::f32, DType::bf16, DType::f16}) : DType::f32;
  run_graph(seed, graph, dtype, shipped ? golden_tolerance(dtype) : 3e-5, dice, counts);
}

void run_tower(uint64_t seed, Counts& counts) {
  Dice dice(seed);
  const Graph graph = random_tower(dice);
  const DType dtype = dice.one_of({DType::f32, DType::bf16, DType::f16});
  // Layers add to each other's errors.
  run_graph(seed, graph, dtype, 2 * golden_tolerance(dtype), dice, counts);
}

/// So many weights that hybrid recurrences are among them, and blocks that wait for each other.
void run_wide(uint64_t seed, Counts& counts) {
  Dice dice(seed);
  const Graph graph = tower({layer(dice)}, dice.one_of<int64_t>({130, 192, 257, 384, 500}));
  const DType dtype = dice.one_of({DType::f32, DType::bf16, DType::f16});
  run_graph(seed, graph, dtype, 2 * golden_tolerance(dtype), dice, counts);
}

void run_draws(void (*run)(uint64_t, Counts&)) {
  const auto [first, draws] = soak_seeds();
  Counts counts;
  for (uint64_t seed = first; seed < first + draws; ++seed) run(seed, counts);
  for (const auto& [strategy, count] : counts) {
    fmt::print("strategy {}: {} of {} draws\n", to_string(strategy), count, draws);
  }
}

TEST(GpuSoak, Draws) {
  run_draws(run_draw);
}

TEST(GpuSoak, Towers) {
  run_draws(run_tower);
}

TEST(GpuSoak, Wide) {
  run_draws(run_wide);
}

// 183: more values that are the same at every step than registers are kept for, and no reduction.
// 6305: results beyond f16's numbers, were params not halved.
// 910127, 910176: loops carry the newest step of a long history, of which nothing reads far back.
TEST(GpuSoak, DrawsThatFailedOnce) {
  Counts counts;
  for (const uint64_t seed : {183, 6305, 910127, 910176}) run_draw(seed, counts);
}

}  // namespace
}  // namespace rnnc::test
