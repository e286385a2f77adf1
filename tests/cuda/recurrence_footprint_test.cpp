// What the kernel of a recurrence takes is what the choice of its tile counted on: the layout's
// figures against those that the problem's expressions have for the same tile.
#include "ir/persistent/recurrence_footprint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include "codegen/cuda/persistent/recurrence_layout.h"
#include "ir/plan/recurrence_sides.h"
#include "passes/build_plan.h"
#include "passes/tile/recurrence_needs.h"
#include "passes/tile/recurrence_space.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/random_graph.h"

namespace rnnc::test {
namespace {

using Integers = RecurrenceFootprint<int64_t>;

std::vector<int64_t> numbers(const SharedBytes<int64_t>& bytes) {
  return {bytes.sums,  bytes.lefts,   bytes.block_sums, bytes.statistics,
          bytes.local, bytes.cluster, bytes.carries};
}

/// Expressions have the values that numbers have.
void compare_types(const TileSpace& space, const RecurrenceTile& tile) {
  const Integers integers(space.shape(), numbers_of(tile));
  const RecurrenceFootprint<IntegerExpression>& expressions = space.footprint;
  const Solution solution = space.solution_of(tile);
  const auto value = [&](const IntegerExpression& of) { return solution.value(of); };
  EXPECT_EQ(integers.exact, value(expressions.exact));
  EXPECT_EQ(integers.laps, value(expressions.laps));
  EXPECT_EQ(integers.are_laps_alike(), value(expressions.are_laps_alike()));
  EXPECT_EQ(integers.sum_rows(), value(expressions.sum_rows()));
  const size_t phases = space.shape().phases.size();
  for (size_t p = 0; p < phases; ++p) {
    EXPECT_EQ(integers.blocks(p), value(expressions.blocks(p)));
    EXPECT_EQ(integers.has_segments(p), value(expressions.has_segments(p)));
    EXPECT_EQ(integers.span(p), value(expressions.span(p)));
    EXPECT_EQ(integers.items(p), value(expressions.items(p)));
    EXPECT_EQ(integers.columns(p), value(expressions.columns(p)));
    EXPECT_EQ(integers.block_columns(p), value(expressions.block_columns(p)));
  }
  EXPECT_EQ(integers.weight_tiles(0, phases), value(expressions.weight_tiles(0, phases)));
  const SharedBytes<IntegerExpression> bytes = expressions.shared_bytes(0, phases);
  EXPECT_EQ(numbers(integers.shared_bytes(0, phases)),
            numbers({value(bytes.sums), value(bytes.lefts), value(bytes.block_sums),
                     value(bytes.statistics), value(bytes.local), value(bytes.cluster),
                     value(bytes.carries)}));
}

/// What the layout finds in the plan by itself is what the shape has counted.
void compare_side(const RecurrenceLayout& layout, const Integers& footprint) {
  int64_t carried = 0;
  int64_t tiles = 0;
  for (const RecurrencePhase& phase : layout.phases()) {
    const RecurrenceShape::Phase& shape = footprint.shape.phases[phase.index];
    EXPECT_EQ(phase.columns, footprint.columns(phase.index));
    EXPECT_EQ(std::ssize(phase.partials), shape.partials);
    carried += shape.carried;
    for (const RecurrenceProduct& product : phase.products) tiles += product.pieces * product.tiles;
  }
  for (const auto& [place, carry] : layout.carries()) carried -= carry.values();
  EXPECT_EQ(carried, 0);
  const size_t begin = layout.phases().front().index;
  const size_t end = layout.phases().back().index + 1;
  EXPECT_EQ(tiles, footprint.weight_tiles(begin, end));
  const SharedBytes<int64_t> bytes = footprint.shared_bytes(begin, end);
  EXPECT_EQ(layout.lefts(), bytes.sums);
  EXPECT_EQ(layout.block_sums(), bytes.sums + bytes.lefts);
  EXPECT_EQ(layout.statistics(), layout.block_sums() + bytes.block_sums);
  EXPECT_EQ(layout.local(), layout.statistics() + bytes.statistics);
  // Of all sides, the most.
  EXPECT_GE(layout.clusters() - layout.local(), bytes.local);
}

void compare(const Plan& plan, const RecurrenceLaunch& launch) {
  SCOPED_TRACE(to_string(launch.tile));
  const Machine machine = h200_machine();
  const TileSpace space(plan, launch.phases, machine, {.sides = launch.tile.sides});
  compare_types(space, launch.tile);
  const Integers footprint(space.shape(), numbers_of(launch.tile));
  int64_t local = 0;
  int64_t shared = 0;
  for (size_t side = 0; side < launch.tile.sides.size(); ++side) {
    const RecurrenceLayout layout(plan, launch, side);
    compare_side(layout, footprint);
    const auto [begin, end] = side_at(launch.tile.sides, side, launch.phases.size());
    local = std::max(local, footprint.shared_bytes(begin, end).local);
    shared = std::max(shared, layout.shared_bytes());
  }
  const RecurrenceExchange exchange = exchange_of(plan, launch);
  EXPECT_EQ(kStepsKept * exchange.local_bytes, local);
  const TileNeeds needs = needs_of(plan, launch, machine);
  // Unlike sides may have the most of different things.
  const bool are_alike = std::ranges::count(space.unlike, true) ==
                         std::ssize(launch.phases) / std::ssize(launch.tile.sides);
  if (are_alike) {
    EXPECT_EQ(shared, needs.shared_bytes);
  } else {
    EXPECT_LE(shared, needs.shared_bytes);
  }
}

/// The plan's recurrences; how many there are.
int compare_all(const Graph& graph, PlanOptions options) {
  options.max_steps = 512;
  options.machine = h200_machine();
  const Result<Plan> plan = build_plan(graph, options);
  if (!plan) return 0;  // not of this strategy
  int count = 0;
  for (const Stage& stage : plan->stages) {
    for (const Launch& launch : stage.launches) {
      const auto* recurrence = std::get_if<RecurrenceLaunch>(&launch);
      if (recurrence == nullptr) continue;
      compare(*plan, *recurrence);
      ++count;
    }
  }
  return count;
}

TEST(RecurrenceFootprint, OfListedShapes) {
  std::ifstream list(RNNC_SOURCE_DIR "/bench/recurrences_list.tsv");
  std::string line;
  int count = 0;
  while (std::getline(list, line)) {
    if (line.starts_with('#') || line.starts_with("cell")) continue;
    SCOPED_TRACE(line);
    std::istringstream words(line);
    std::string cell, dtype;
    int64_t batch = 0, hidden = 0;
    ASSERT_TRUE(words >> cell >> batch >> hidden >> dtype);
    GoldenCase of;
    of.cell = cell == "lstm" ? "LSTM" : "GRU";
    of.size.dims = {{"I", hidden}, {"H", hidden}};
    const Result<Graph> graph = golden_graph(of);
    ASSERT_TRUE(graph);
    const bool tf32 = dtype == "tf32";
    for (const int64_t rank : {0, 3}) {
      count += compare_all(*graph, {.dtype = tf32 ? DType::f32 : *parse_dtype(dtype),
                                    .batch = batch,
                                    .tf32 = tf32,
                                    .tile_rank = rank});
    }
  }
  EXPECT_GE(count, 100);
}

TEST(RecurrenceFootprint, OfShippedCells) {
  for (const std::string& cell : golden_cells()) {
    SCOPED_TRACE(cell);
    GoldenCase of = golden_cases(cell, {DType::f32}).back();
    for (const int64_t batch : {1, 37}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        for (const Strategy strategy : {Strategy::Any, Strategy::Block, Strategy::Cluster,
                                        Strategy::Grid, Strategy::SplitK}) {
          const Result<Graph> graph = golden_graph(of);
          ASSERT_TRUE(graph);
          compare_all(*graph, {.dtype = dtype, .batch = batch, .strategy = strategy});
        }
      }
    }
  }
}

TEST(RecurrenceFootprint, OfNetworks) {
  for (const std::string& name : networks()) {
    SCOPED_TRACE(name);
    for (const int64_t size : {7, 96, 256}) {
      for (const int64_t batch : {1, 5, 37}) {
        for (const DType dtype : {DType::f32, DType::bf16}) {
          compare_all(network(name, size), {.dtype = dtype, .batch = batch});
        }
      }
    }
  }
}

TEST(RecurrenceFootprint, OfRandomGraphs) {
  int count = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const RandomGraphOptions options = {.largest_size = seed % 2 == 0 ? 64 : 8,
                                        .structure = seed % 3 == 0,
                                        .reversals = seed % 5 == 0};
    const DType dtype = seed % 4 < 2 ? DType::f32 : DType::bf16;
    for (const int64_t batch : {1, 5, 37}) {
      count += compare_all(random_graph(seed, options), {.dtype = dtype, .batch = batch});
    }
  }
  EXPECT_GE(count, 20);
}

/// Of any numbers, whether a machine has room for the tile or not.
TEST(RecurrenceFootprint, OfRandomTiles) {
  std::mt19937_64 random(3);
  const auto one_of = [&](std::initializer_list<int64_t> values) {
    return values.begin()[random() % values.size()];
  };
  for (const char* cell : {"LSTM", "GRUResetBefore", "LayerNormLSTM", "LEM"}) {
    for (int trial = 0; trial < 100; ++trial) {
      GoldenCase of = golden_cases(cell, {DType::f32}).back();
      of.size.dims["H"] = one_of({1, 7, 33, 300, 1024});
      const Result<Graph> graph = golden_graph(of);
      ASSERT_TRUE(graph);
      const Result<Plan> plan =
          build_plan(*graph, {.dtype = one_of({0, 1}) ? DType::f32 : DType::f16,
                              .batch = one_of({1, 3, 16, 53, 128}),
                              .max_steps = 10,
                              .machine = h200_machine()});
      ASSERT_TRUE(plan);
      for (const Stage& stage : plan->stages) {
        if (!is_resident(stage)) continue;
        RecurrenceLaunch launch = std::get<RecurrenceLaunch>(stage.launches[0]);
        RecurrenceTile& tile = launch.tile;
        tile.groups = std::min(plan->batch, one_of({1, 2, 5, 16}));
        tile.warps = one_of({4, 8, 16});
        tile.k_warps = tile.warps / one_of({1, 2, 4});
        tile.rows = one_of({8, 16, 24, 32});
        tile.split = one_of({0, 1}) != 0;
        tile.own_sums = one_of({0, 1}) != 0;
        tile.streamed_words = one_of({0, 8});
        tile.clusters = one_of({0, 1}) != 0;
        tile.k_blocks = one_of({1, 2, 4});
        tile.units.assign(tile.units.size(), one_of({1, 2, 6, 16, 40, 128}));
        SCOPED_TRACE(fmt::format("{}: {}", cell, to_string(tile)));
        const Machine machine = h200_machine();
        compare_types(TileSpace(*plan, launch.phases, machine, {.sides = tile.sides}), tile);
      }
    }
  }
}

}  // namespace
}  // namespace rnnc::test
