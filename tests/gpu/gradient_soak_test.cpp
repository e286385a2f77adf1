// Random draws of a cell, shape, type, strategy, tile, lengths, resets and initial states: both
// halves of the derivative against the interpreter. Half of the cells are random graphs:
//
//     RNNC_SOAK_DRAWS=500 rnnc_test_gpu --gtest_filter='GpuGradientSoak*'
#include <gtest/gtest.h>

#include "tests/gpu/gpu_plans.h"
#include "tests/gpu/soak_draws.h"

namespace rnnc::test {
namespace {

using Counts = std::map<Strategy, int>;

void run_gradient_draw(uint64_t seed, Counts& counts) {
  Dice dice(seed);
  const bool shipped = dice.one_in(2);
  const Graph graph = shipped ? shipped_cell(dice) : random_cell(seed, dice);
  HalfCheck half = {
      .steps = dice.up_to(20),
      .batch = dice.one_of<int64_t>({1, 2, 3, 5, 8, 9, 17, 33}),
      .chunk = dice.one_in(2) ? 0 : dice.up_to(9),
      .seed = seed,
      .dtype = shipped ? dice.one_of({DType::f32, DType::bf16, DType::f16}) : DType::f32,
      .lengths = dice.one_in(2),
      .resets = dice.one_in(2),
      .given_states = dice.one_in(2),
      .strategy = dice.one_of({Strategy::Any, Strategy::Block, Strategy::Cluster, Strategy::Grid,
                               Strategy::Hybrid, Strategy::SplitK}),
      .tile_rank = dice.one_in(2) ? 0 : dice.up_to(12),
      .any_cell = true};
  if (dice.one_in(4)) half.passes = half.passes.without(Pass::Resident);
  if (dice.one_in(4)) half.passes = half.passes.without(Pass::Wavefront);
  SCOPED_TRACE(
      fmt::format("seed {}: {}, {}, {} steps in chunks of {}, batch {}{}{}{}, strategy {} "
                  "or a later one, rank {}, passes {}",
                  seed, graph.name, to_string(half.dtype), half.steps, half.chunk, half.batch,
                  half.lengths ? ", lengths" : "", half.resets ? ", resets" : "",
                  half.given_states ? ", states" : "", to_string(half.strategy), half.tile_rank,
                  half.passes.to_string()));
  GpuPlans gpu(half.dtype, !dice.one_in(4));
  check(graph, half, gpu);
  for (const auto& [strategy, count] : gpu.recurrences) counts[strategy] += count;
}

TEST(GpuGradientSoak, Draws) {
  const auto [first, draws] = soak_seeds();
  Counts counts;
  for (uint64_t seed = first; seed < first + draws; ++seed) run_gradient_draw(seed, counts);
  for (const auto& [strategy, count] : counts) {
    fmt::print("strategy {}: {} recurrences of {} draws\n", to_string(strategy), count, draws);
  }
}

}  // namespace
}  // namespace rnnc::test
