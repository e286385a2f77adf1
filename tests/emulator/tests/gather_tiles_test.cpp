// Resident recurrences whose kernels gather what other threads store, on the emulated GPU: values
// per row, elements and slices of the same step and of steps before, between phases of different
// lengths, on tiles of every kind.
#include "ir/persistent/recurrence_gathers.h"
#include "passes/build_plan.h"
#include "passes/graph/delays.h"
#include "tests/emulator/tests/emulated_tiles.h"

namespace rnnc::test {
namespace {

Graph gathering(int64_t hidden, int64_t memory) {
  Graph graph = cell_of("Gathering", R"(cell Gathering[H, D](x: [H]) -> h {
  state h: [H]
  state m: [D]
  param A: [D, D]
  param R: [H, H]
  param W: [H, D]
  param e: [H]
  param B: [D]
  u = tanh(dot(e, h[t-1]) + mean(m[t-1]))
  m[t] = tanh(A @ m[t-1] + B * u + h[t-1][1] * m[t-2][0])
  n = layernorm(R @ h[t-1] + W @ m[t], e, e)
  h[t] = tanh(x[t] + n + m[t][2] + m[t-1][D-H:] * mean(m[t]))
}
)",
                        {{"H", hidden}, {"D", memory}});
  run_delays(graph);
  return graph;
}

struct Gathered {
  int64_t hidden, memory, batch;
  int multiprocessors;
  DType dtype;
  Kind kind;
  Strategy strategy = Strategy::Any;
};

class EmulatedGathers : public EmulatedTiles {
 protected:
  static void check_gathered(const Gathered& gathered, const SequenceFeatures& features = {}) {
    const Graph graph = gathering(gathered.hidden, gathered.memory);
    const Sequences sequences = random_sequences(7, gathered.batch, features, true, 5);
    CompileOptions any = options(gathered.dtype, gathered.multiprocessors);
    any.strategy = gathered.strategy;
    check(graph, with_tile(graph, any, sequences, gathered.kind), sequences, gathered.kind);
  }
};

TEST_F(EmulatedGathers, AmongBlocksOfDifferentNumbers) {
  const Kind several = [](const RecurrenceTile& tile) { return tile.blocks > 1; };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    check_gathered({33, 40, 3, 8, dtype, several});
    check_gathered({7, 70, 1, 12, dtype, several});
  }
}

TEST_F(EmulatedGathers, WithinABlock) {
  check_gathered(
      {7, 9, 5, 8, DType::bf16, [](const RecurrenceTile& tile) { return tile.blocks == 1; }});
}

TEST_F(EmulatedGathers, OfSeveralGroupsWithLengthsAndResets) {
  check_gathered({24, 40, 19, 24, DType::f32,
                  [](const RecurrenceTile& tile) { return tile.groups > 1 && tile.blocks > 1; }},
                 {.lengths = true, .resets = true});
}

TEST_F(EmulatedGathers, InTwoLaps) {
  const Kind two = [](const RecurrenceTile& tile) {
    return tile.blocks > 1 && laps_of(tile, 40) == 2;
  };
  check_gathered({20, 26, 40, 4, DType::bf16, two, Strategy::Grid});
}

TEST_F(EmulatedGathers, InManyLapsOfOneCode) {
  const Kind many = [](const RecurrenceTile& tile) {
    return tile.blocks > 1 && laps_of(tile, 70) > 2;
  };
  check_gathered({20, 26, 70, 3, DType::bf16, many, Strategy::Grid});
}

TEST_F(EmulatedGathers, BesideWeightsThatAreStreamed) {
  check_gathered({1000, 1024, 2, 32, DType::f32, is_streamed});
}

TEST_F(EmulatedGathers, BesideWeightsThatAreSplit) {
  check_gathered({96, 130, 9, 6, DType::f32, is_split});
}

TEST_F(EmulatedGathers, AreOfFiveBuffers) {
  const PlanOptions options = {.batch = 2, .max_steps = 4, .machine = h200_machine()};
  const Result<Plan> plan = build_plan(gathering(8, 12), options);
  ASSERT_TRUE(plan) << plan.error().message;
  const auto found = std::ranges::find_if(plan->stages, is_resident);
  ASSERT_NE(found, plan->stages.end());
  const auto& launch = std::get<RecurrenceLaunch>(found->launches[0]);
  // u's sum, h, m of two delays, the mean of m.
  EXPECT_EQ(gathers_of(*plan, launch.phases, launch.tile.sides).size(), 5u);
}

}  // namespace
}  // namespace rnnc::test
