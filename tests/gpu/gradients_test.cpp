// Both halves of a derivative on the GPU, against the interpreter: every way in which recurrences
// run, graphs replayed and not, types, odd sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <tuple>

#include "frontend/unit.h"
#include "passes/graph/delays.h"
#include "tests/gpu/gpu_plans.h"
#include "tests/gpu/graphs.h"
#include "tests/support/cells/array_cells.h"
#include "tests/support/cells/graph_of_text.h"
#include "tests/support/cells/language_cells.h"
#include "tests/support/cells/long_cells.h"
#include "tests/support/cells/loop_cells.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/gradients/half_check.h"
#include "tests/support/reference/plan_run.h"

namespace rnnc::test {
namespace {

void check(const Graph& graph, const HalfCheck& half, bool graphs = true) {
  GpuPlans gpu(half.dtype, graphs);
  check(graph, half, gpu);
}

const DType kTypes[] = {DType::f32, DType::bf16, DType::f16};

/// Plans are run as they are: where a device refuses a resident recurrence, since its kernel
/// spills, there is no other.
const PassSet kNothingRefused = PassSet::all().without(Pass::Resident);

// ---- Random graphs. ----

class GpuGradients : public testing::TestWithParam<uint64_t> {};

TEST_P(GpuGradients, OfRandomGraphs) {
  const uint64_t seed = GetParam();
  const RandomGraphOptions options = {.structure = seed % 2 == 1, .reversals = seed % 4 >= 2};
  PassSet passes = PassSet::all();
  if (seed % 3 == 1) passes = passes.without(Pass::Resident);
  if (seed % 3 == 2) passes = passes.without(Pass::Resident).without(Pass::Loop);
  if (seed % 7 == 5) passes = passes.without(Pass::Epilogue);
  check(random_graph(seed, options),
        {.steps = static_cast<int64_t>(1 + seed % 9),
         .chunk = static_cast<int64_t>(1 + seed % 4),
         .seed = seed,
         .dtype = seed % 4 == 3 ? DType::bf16 : DType::f32,
         .lengths = seed % 5 == 1,
         .resets = seed % 5 >= 3,
         .given_states = seed % 3 == 0,
         .passes = passes},
        seed % 8 < 6);
}

INSTANTIATE_TEST_SUITE_P(Seeds, GpuGradients, testing::Range<uint64_t>(0, 48));

// ---- Many layers, whose kernels before and after all steps have more arrays than a launch may. ----

TEST(GpuGradientsOfManyLayers, AreInSeveralLaunches) {
  const Graph graph = graph_of_text(
      "cell Layer[H](x: [H]) -> h {\nstate h: [H]\nparam W, U, V: [H, H]\nparam b: [H]\n"
      "h[t] = tanh(W @ x[t] + (U * V) @ h[t-1] + b)\n}\n"
      "network Layers[H, L](x: [H]) -> y {\ny = x\n"
      "for l in 0..L { y = Layer[H = H](y) }\n}\n",
      "Layers", {{"H", 4}, {"L", 160}});
  check(graph, {.steps = 2,
                .batch = 2,
                .chunk = 2,
                .seed = 1,
                .dtype = DType::f32,
                .passes = kNothingRefused});
}

// ---- Long steps, whose kernels are several of many arrays. ----

class GpuLongSteps : public testing::TestWithParam<LongCell> {};

TEST_P(GpuLongSteps, AreWhatTheInterpreterComputes) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    check(graph_of_turns(GetParam(), 200), {.steps = 5,
                                            .batch = 3,
                                            .chunk = 2,
                                            .seed = 1,
                                            .dtype = dtype,
                                            .lengths = dtype == DType::f32,
                                            .resets = dtype == DType::bf16,
                                            .given_states = true,
                                            .passes = kNothingRefused});
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuLongSteps, testing::ValuesIn(long_cells()),
                         [](const auto& test) { return test.param.name; });

// ---- Loops over arrays that stay loops. ----

HalfCheck half_with_loops(uint64_t seed) {
  return {.steps = static_cast<int64_t>(1 + seed % 5),
          .batch = 2,
          .chunk = static_cast<int64_t>(1 + seed % 4),
          .seed = seed,
          .dtype = seed % 3 == 2 ? DType::bf16 : DType::f32,
          .lengths = seed % 5 == 1,
          .resets = seed % 5 >= 3,
          .given_states = seed % 3 == 1,
          .passes = kNothingRefused};
}

class GpuGradientsOfArrays : public testing::TestWithParam<uint64_t> {};

TEST_P(GpuGradientsOfArrays, OfOddSizes) {
  const uint64_t seed = GetParam();
  SCOPED_TRACE(random_array_cell(seed));
  const int64_t sizes[] = {7, 64, 33, 100};
  check(random_array_graph(seed, 30 + static_cast<int64_t>(seed % 5), sizes[seed % 4]),
        half_with_loops(seed), seed % 2 == 0);
}
INSTANTIATE_TEST_SUITE_P(Seeds, GpuGradientsOfArrays, testing::Range<uint64_t>(0, 24));

class GpuGradientsOfNests : public testing::TestWithParam<uint64_t> {};

TEST_P(GpuGradientsOfNests, OfOddSizes) {
  const uint64_t seed = GetParam();
  SCOPED_TRACE(random_nest_cell(seed));
  const int64_t sizes[] = {7, 64, 33, 100};
  const auto outer = static_cast<int64_t>(4 + seed % 5);
  check(random_nest_graph(seed, outer, static_cast<int64_t>(8 + seed % 9), sizes[seed % 4]),
        half_with_loops(seed), seed % 2 == 0);
}
INSTANTIATE_TEST_SUITE_P(Seeds, GpuGradientsOfNests, testing::Range<uint64_t>(0, 24));

// ---- Cells of the language and networks. ----

struct Source {
  std::string name;
  bool is_network = false;
  Graph graph(int64_t size) const {
    return is_network ? network(name, size) : language_cell(name, size);
  }
};

std::vector<Source> sources() {
  std::vector<Source> result;
  for (const std::string& name : language_cells()) result.push_back({name, false});
  for (const std::string& name : networks()) result.push_back({name, true});
  return result;
}

using CellCase = std::tuple<Source, DType>;

class GpuGradientsOfCells : public testing::TestWithParam<CellCase> {};

TEST_P(GpuGradientsOfCells, AtOddSizes) {
  const auto& [source, dtype] = GetParam();
  uint64_t seed = 0;
  for (const int64_t size : {1, 7, 33}) {
    SCOPED_TRACE(size);
    ++seed;
    check(source.graph(size), {.seed = seed,
                               .dtype = dtype,
                               .lengths = seed % 2 == 1,
                               .resets = seed % 3 == 2,
                               .given_states = seed % 2 == 0});
  }
}

TEST_P(GpuGradientsOfCells, StepByStep) {
  const auto& [source, dtype] = GetParam();
  const PassSet passes = PassSet::all().without(Pass::Resident).without(Pass::Loop);
  for (const bool graphs : {true, false}) {
    SCOPED_TRACE(graphs ? "replayed" : "launched");
    check(source.graph(9),
          {.steps = 11, .chunk = 4, .seed = 3, .dtype = dtype, .lengths = true, .passes = passes},
          graphs);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuGradientsOfCells,
                         testing::Combine(testing::ValuesIn(sources()), testing::ValuesIn(kTypes)),
                         [](const auto& one) {
                           return fmt::format("{}_{}", std::get<Source>(one.param).name,
                                              to_string(std::get<DType>(one.param)));
                         });

// ---- Recurrences in one launch. ----

using StrategyCase = std::tuple<Strategy, DType>;

class GpuGradientsByStrategy : public testing::TestWithParam<StrategyCase> {};

TEST_P(GpuGradientsByStrategy, OfOddSizesAndBatches) {
  const auto [strategy, dtype] = GetParam();
  GpuPlans gpu(dtype);
  uint64_t seed = 0;
  for (const auto& [size, batch] :
       {std::pair<int64_t, int64_t>{3, 1}, {7, 17}, {33, 5}, {64, 16}}) {
    SCOPED_TRACE(fmt::format("size {}, batch {}", size, batch));
    ++seed;
    check(lstm_graph(5, size),
          {.steps = 9,
           .batch = batch,
           .chunk = 4,
           .seed = seed,
           .dtype = dtype,
           .lengths = seed % 2 == 0,
           .resets = seed == 4,
           .given_states = seed % 2 == 1,
           .strategy = strategy},
          gpu);
  }
  EXPECT_GE(gpu.descending_recurrences, 1);
  EXPECT_GE(gpu.sums, 4);
  EXPECT_GE(gpu.outer_products, 8);
}

INSTANTIATE_TEST_SUITE_P(All, GpuGradientsByStrategy,
                         testing::Combine(testing::Values(Strategy::Block, Strategy::Cluster,
                                                          Strategy::Grid, Strategy::SplitK),
                                          testing::ValuesIn(kTypes)),
                         [](const auto& one) {
                           std::string name(to_string(std::get<Strategy>(one.param)));
                           std::ranges::replace(name, '-', '_');
                           return name + '_' + std::string(to_string(std::get<DType>(one.param)));
                         });

// Adjoints of a linear recurrence are one too, in the other direction.
TEST(GpuGradientsOfScans, OfOddSizesAndBatches) {
  constexpr const char* kGate =
      "cell Gate[H](p: [H], n: [H]) -> h {\n  state h: [H]\n  param a: [H]\n  z = sigmoid(p[t] + "
      "a)\n"
      "  h[t] = (1 - z) * h[t-1] + z * n[t]\n}\n";
  GpuPlans gpu(DType::f32);
  for (const auto& [size, batch, steps] :
       {std::array<int64_t, 3>{1, 1, 1}, {7, 3, 33}, {6, 2, 150}}) {
    SCOPED_TRACE(fmt::format("size {}, batch {}, steps {}", size, batch, steps));
    Unit unit("gate.rnn", kGate);
    std::optional<Graph> graph = unit.lower("Gate", {{"H", size}});
    ASSERT_TRUE(graph) << unit.render();
    graph->bind({{"H", size}});
    run_delays(*graph);
    // Of even seeds the backward half is given the outputs, too; where states start as zero, the
    // scan reads them a step earlier where they lie.
    for (const uint64_t seed : {1, 2, 4}) {
      check(*graph,
            {.steps = steps,
             .batch = batch,
             .chunk = 100,
             .seed = seed,
             .dtype = DType::f32,
             .lengths = size == 7,
             .resets = size == 7,
             .given_states = seed != 4,
             .strategy = Strategy::Scan},
            gpu);
    }
  }
  EXPECT_EQ(gpu.scans_of_earlier_steps, 2);
}

/// So much is kept of a step, and so many channels are there, that tiles have fewer warps.
TEST(GpuGradientsOfScans, OfManyChannelsAndValues) {
  constexpr const char* kWeighted =
      "cell Weighted[H](k: [H], v: [H], r: [H]) -> y {\n  state a, b, p: [H]\n  param w, u: [H]\n"
      "  q = max(p[t-1], u + k[t])\n  past = exp(p[t-1] - q)\n  now = exp(u + k[t] - q)\n"
      "  y = sigmoid(r[t]) * (past * a[t-1] + now * v[t]) / (past * b[t-1] + now)\n"
      "  p[t] = max(p[t-1] - w, k[t])\n  kept = exp(p[t-1] - w - p[t])\n"
      "  added = exp(k[t] - p[t])\n  a[t] = kept * a[t-1] + added * v[t]\n"
      "  b[t] = kept * b[t-1] + added\n}\n";
  Unit unit("weighted.rnn", kWeighted);
  std::optional<Graph> graph = unit.lower("Weighted", {{"H", 2052}});
  ASSERT_TRUE(graph) << unit.render();
  graph->bind({{"H", 2052}});
  run_delays(*graph);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    GpuPlans gpu(dtype);
    check(*graph,
          {.steps = 70,
           .batch = 2,
           .chunk = 70,
           .dtype = dtype,
           .given_states = true,
           .strategy = Strategy::Scan,
           .any_cell = true},
          gpu);
    EXPECT_EQ(gpu.scans_of_few_warps, 1);
  }
}

/// Of params, which scans add up tile by tile; of which sizes threads have two channels, groups
/// several tiles, and totals a place apart from each other.
class GpuGradientsOfScanTotals : public testing::TestWithParam<const char*> {};

TEST_P(GpuGradientsOfScanTotals, OfOddSizesAndBatches) {
  uint64_t seed = 0;
  for (const auto& [size, batch, steps, chunk] : {std::array<int64_t, 4>{1, 1, 1, 1},
                                                  {3, 2, 7, 100},
                                                  {33, 1, 300, 130},
                                                  {7, 3, 33, 20},
                                                  {66, 2, 90, 90},
                                                  {4, 1, 1000, 1000}}) {
    for (const DType dtype : {DType::f32, seed % 2 == 0 ? DType::bf16 : DType::f16}) {
      SCOPED_TRACE(fmt::format("size {}, batch {}, T {}, chunk {} in {}", size, batch, steps, chunk,
                               to_string(dtype)));
      ++seed;
      GpuPlans gpu(dtype);
      check(loop_cell(GetParam(), size),
            {.steps = steps,
             .batch = batch,
             .chunk = chunk,
             .seed = seed,
             .dtype = dtype,
             .lengths = seed % 3 == 1,
             .resets = seed % 3 == 2,
             .given_states = seed % 4 < 2,
             .strategy = Strategy::Scan},
            gpu);
      EXPECT_GE(gpu.scan_totals, 2);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, GpuGradientsOfScanTotals,
                         testing::Values("Floor", "Turning", "Weighted", "Biased"),
                         [](const auto& name) { return name.param; });

/// With phases one after the other in a step, reductions, and what is gathered.
TEST(GpuGradientsOfTowers, OfEveryCell) {
  uint64_t seed = 0;
  for (const std::string cell :
       {"Dense", "Normed", "Gated", "Projected", "Update", "ResetBefore", "Elementwise"}) {
    for (const DType dtype : kTypes) {
      SCOPED_TRACE(fmt::format("{} in {}", cell, to_string(dtype)));
      ++seed;
      check(tower({cell, cell}, 24), {.steps = 7,
                                      .batch = 6,
                                      .chunk = seed % 2 == 0 ? 3 : 16,
                                      .seed = seed,
                                      .dtype = dtype,
                                      .given_states = seed % 2 == 0});
    }
  }
}

/// Layers from the last to the first as one launch, weight gradients behind it.
TEST(GpuGradientsOfStacks, OfSeveralCells) {
  uint64_t seed = 0;
  const std::vector<std::vector<std::string>> towers = {{"Gated", "Gated"},
                                                        {"Gated", "Gated", "Gated", "Gated"},
                                                        {"ResetBefore", "ResetBefore"},
                                                        {"Dense", "Update", "Gated"}};
  for (const std::vector<std::string>& cells : towers) {
    for (const DType dtype : kTypes) {
      SCOPED_TRACE(fmt::format("{} x {} in {}", cells.size(), cells.back(), to_string(dtype)));
      ++seed;
      GpuPlans gpu(dtype);
      check(tower(cells, seed % 2 == 0 ? 24 : 17),
            {.steps = 7,
             .batch = seed % 3 == 0 ? 19 : 6,
             .chunk = seed % 2 == 0 ? 3 : 16,
             .seed = seed,
             .dtype = dtype,
             .lengths = seed % 4 == 1,
             .given_states = seed % 2 == 0,
             .strategy = Strategy::Stacked},
            gpu);
      EXPECT_EQ(gpu.descending_recurrences, 1);
    }
  }
}

/// A chunk's rows in one piece, and in several of which the last is shorter; a last chunk that is
/// shorter, too.
TEST(GpuGradientsInParts, OfWeights) {
  for (const int64_t batch : {150, 151, 152, 300}) {
    SCOPED_TRACE(batch);
    GpuPlans gpu(DType::f32);
    check(lstm_graph(256, 256),
          {.steps = 14, .batch = batch, .chunk = 11, .seed = 1, .dtype = DType::f32}, gpu);
    EXPECT_GE(gpu.totals_in_parts, 2);
    EXPECT_GE(gpu.turned_totals, 2);
  }
}

TEST(GpuGradientsInTf32, OfResidentAndSteppedRecurrences) {
  for (const bool resident : {true, false}) {
    const PassSet passes = resident ? PassSet::all() : PassSet::all().without(Pass::Resident);
    check(network("Stack", 24), {.steps = 9,
                                 .batch = 5,
                                 .chunk = 4,
                                 .seed = 2,
                                 .dtype = DType::f32,
                                 .passes = passes,
                                 .tf32 = true});
  }
}

/// With right operands turned, in chunks of which the one that runs last is shorter. Columns of odd
/// batches end anywhere.
TEST(GpuGradientsInTf32, OfLargeWeights) {
  for (const int64_t batch : {64, 63, 66}) {
    SCOPED_TRACE(batch);
    GpuPlans gpu(DType::f32);
    check(lstm_graph(16, 512),
          {.steps = 14,
           .batch = batch,
           .chunk = 11,
           .seed = 1,
           .dtype = DType::f32,
           .passes = kNothingRefused,
           .tf32 = true},
          gpu);
    EXPECT_GE(gpu.turned_totals, 1);  // of h: x is narrow
  }
}

/// Products have more columns than the gradients by inputs, in parts or rounded to TF32. (An H200
/// turns no total of 203 units for TF32: it would take longer.)
TEST(GpuGradientsInTf32, OfRowsThatAreNotAligned) {
  for (const bool tf32 : {false, true}) {
    SCOPED_TRACE(tf32 ? "TF32" : "in parts");
    GpuPlans gpu(DType::f32);
    check(lstm_graph(201, tf32 ? 509 : 203),
          {.steps = 14,
           .batch = 64,
           .chunk = 14,
           .seed = 1,
           .dtype = DType::f32,
           .passes = kNothingRefused,
           .tf32 = tf32},
          gpu);
    EXPECT_GE(gpu.turned_totals, 1);
  }
}

/// Whose gate's adjoint is made of the state before: a backward half reads it step by step.
constexpr const char* kGated =
    "cell Gated[H](x: [H]) -> h {\nstate h: [H]\nparam W, U: [H, H]\n"
    "h[t] = sigmoid(W @ h[t-1]) * h[t-1] + tanh(U @ h[t-1] + x[t])\n}\n";

/// Totals and recurrences that read outputs a step earlier, in chunks that hold the first step and
/// that do not.
TEST(GpuGradientsOfOutputs, AStepEarlier) {
  uint64_t seed = 0;
  for (const DType dtype : kTypes) {
    GpuPlans gpu(dtype);
    for (const auto& [steps, chunk] :
         {std::pair(1, 4), std::pair(2, 2), std::pair(9, 4), std::pair(7, 9), std::pair(5, 1)}) {
      SCOPED_TRACE(fmt::format("{} steps, chunks of {}", steps, chunk));
      HalfCheck of{.steps = steps,
                   .batch = 3,
                   .chunk = chunk,
                   .seed = seed += 2,  // even ones: backward halves are given the outputs
                   .dtype = dtype,
                   .tf32 = dtype == DType::f32 && seed % 4 == 0};
      check(lstm_graph(24, 32), of, gpu);
      check(network("Stack", 24), of, gpu);
      check(graph_of_text(kGated, "Gated", {{"H", 24}}), of, gpu);
    }
    EXPECT_GE(gpu.earlier_totals, 10);
    EXPECT_GE(gpu.recurrences_of_earlier_steps, 3);
  }
}

/// Rows of weight gradients that would not be aligned have columns behind them, and gates lie side
/// by side.
class GpuGradientsOfOddWidths : public testing::TestWithParam<std::tuple<DType, bool>> {};

TEST_P(GpuGradientsOfOddWidths, HaveAlignedRows) {
  const auto [dtype, tf32] = GetParam();
  GpuPlans gpu(dtype);
  uint64_t seed = 0;
  for (const int64_t hidden : {33, 70}) {
    HalfCheck of{.steps = 13, .batch = 5, .dtype = dtype, .tf32 = tf32};
    SCOPED_TRACE(hidden);
    of.seed = ++seed;
    of.given_states = true;
    check(lstm_graph(hidden + 2, hidden), of, gpu);
    of.chunk = 4;
    for (const std::string& name : networks()) {
      SCOPED_TRACE(name);
      of.seed = ++seed;
      of.lengths = seed % 3 == 1;
      of.given_states = seed % 2 == 0;
      check(network(name, hidden), of, gpu);
    }
  }
  EXPECT_GT(gpu.padded_totals, 0);
}
INSTANTIATE_TEST_SUITE_P(All, GpuGradientsOfOddWidths,
                         testing::Values(std::tuple(DType::f32, false),
                                         std::tuple(DType::f32, true),
                                         std::tuple(DType::bf16, false),
                                         std::tuple(DType::f16, false)));

TEST(GpuGradientsOfF32Params, Beside16BitArrays) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(to_string(dtype));
    uint64_t seed = 0;
    for (const std::string& name : networks()) {
      SCOPED_TRACE(name);
      ++seed;
      check(network(name, 24), {.steps = 9,
                                .batch = 5,
                                .chunk = 4,
                                .seed = seed,
                                .dtype = dtype,
                                .param_dtype = DType::f32,
                                .given_states = seed % 2 == 0});
    }
    for (seed = 0; seed < 8; ++seed) {
      check(random_graph(seed),
            {.seed = seed, .dtype = dtype, .param_dtype = DType::f32, .lengths = seed % 2 == 1});
    }
  }
}

class GpuLargeGradients : public testing::TestWithParam<int64_t> {};

TEST_P(GpuLargeGradients, InBf16) {
  check(lstm_graph(40, GetParam()),
        {.steps = 12, .batch = 9, .chunk = 5, .seed = 4, .dtype = DType::bf16});
}

INSTANTIATE_TEST_SUITE_P(Sizes, GpuLargeGradients, testing::Values(128, 300));

/// As many rows as are added up in slices.
TEST(GpuTotals, OfManyRows) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(to_string(dtype));
    check(lstm_graph(3, 40),
          {.steps = 150, .batch = 16, .chunk = 64, .seed = 5, .dtype = dtype, .lengths = true});
  }
}

/// Histories that are longer than a chunk, by hand: their slots move on as if by memmove.
TEST(GpuGradientsOfDelays, LongerThanChunks) {
  for (const uint64_t seed : {3, 11, 19, 27}) {
    SCOPED_TRACE(seed);
    check(random_graph(seed), {.steps = 8, .chunk = 1, .seed = seed, .dtype = DType::f32});
    check(random_graph(seed), {.steps = 9, .chunk = 2, .seed = seed, .dtype = DType::f32}, false);
  }
}

/// Of recurrences in one launch, whose adjoints are histories too.
TEST(GpuGradientsOfDelays, ShorterAndLongerThanSequences) {
  uint64_t seed = 0;
  const std::vector<std::vector<std::string>> towers = {
      {"Dilated"}, {"Skip"}, {"Dilated", "Gated", "Dilated"}, {"Lags"}, {"Lags", "Echoes"}};
  for (const std::vector<std::string>& cells : towers) {
    for (const DType dtype : kTypes) {
      for (const int64_t steps : {7, 26}) {
        SCOPED_TRACE(fmt::format("{} x {}, {} steps in {}", cells.size(), cells[0], steps,
                                 to_string(dtype)));
        ++seed;
        GpuPlans gpu(dtype);
        check(tower(cells, seed % 3 == 0 ? 24 : 17),
              {.steps = steps,
               .batch = seed % 4 == 0 ? 19 : 5,
               .chunk = seed % 2 == 0 ? 4 : 30,
               .seed = seed,
               .dtype = dtype,
               .lengths = seed % 4 >= 2,
               .resets = seed % 5 >= 2,
               .given_states = seed % 3 != 1},
              gpu);
        EXPECT_GE(gpu.descending_recurrences, 1);
      }
    }
  }
}

}  // namespace
}  // namespace rnnc::test
