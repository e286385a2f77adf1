// Recurrences side by side: which, when, and that nobody sees it in the results.
#include "runtime/cpu/tracks.h"

#include <gtest/gtest.h>

#include "frontend/unit.h"
#include "passes/build_plan.h"
#include "tests/cpu/program_run.h"
#include "tests/support/cells/random_graph.h"

namespace rnnc::test {
using namespace cpu;

namespace {

Stage stage_of(Domain domain, uint32_t sweep, uint32_t lag) {
  return {.domain = domain, .sweep = sweep, .lag = lag};
}

TEST(Tracks, AreTheStagesOfALagInOrder) {
  Plan plan;
  plan.sweeps = 2;
  plan.stages = {stage_of(Domain::Once, 0, 0), stage_of(Domain::Sequence, 0, 2),
                 stage_of(Domain::Step, 0, 0), stage_of(Domain::Step, 0, 2),
                 stage_of(Domain::Step, 1, 1)};
  const auto sweeps = find_tracks(plan);
  ASSERT_EQ(sweeps.size(), 2);
  ASSERT_EQ(sweeps[0].size(), 2);
  EXPECT_EQ(sweeps[0][0].lag, 0);
  EXPECT_EQ(sweeps[0][0].stages, std::vector<size_t>{2});
  EXPECT_EQ(sweeps[0][1].lag, 2);
  EXPECT_EQ(sweeps[0][1].stages, (std::vector<size_t>{1, 3}));
  ASSERT_EQ(sweeps[1].size(), 1);
  EXPECT_EQ(sweeps[1][0].stages, std::vector<size_t>{4});
}

TEST(Tracks, OfAWaveAreThoseWithAChunk) {
  std::vector<Track> tracks(4);
  for (uint32_t lag = 0; lag < 4; ++lag) tracks[lag].lag = lag;
  const auto lags = [&](int64_t index, int64_t chunks) {
    constexpr int64_t kSteps = 5;
    const Wave wave = {.index = index, .chunk = kSteps, .steps = kSteps * chunks - 2};
    std::vector<uint32_t> result;
    for (const Track& track : tracks_of_wave(tracks, wave)) result.push_back(track.lag);
    return result;
  };
  using Lags = std::vector<uint32_t>;
  EXPECT_EQ(lags(0, 3), (Lags{0}));
  EXPECT_EQ(lags(2, 3), (Lags{0, 1, 2}));
  EXPECT_EQ(lags(3, 3), (Lags{1, 2, 3}));
  EXPECT_EQ(lags(5, 3), (Lags{3}));
  EXPECT_EQ(lags(6, 3), (Lags{}));
  EXPECT_EQ(lags(0, 1), (Lags{0}));
  EXPECT_EQ(lags(3, 8), (Lags{0, 1, 2, 3}));
}

TEST(Tracks, GoSideBySideIfTheSlowestAloneIsFasterThanAllInTurn) {
  const auto worth = [](std::vector<std::pair<double, double>> times) {
    std::vector<Track> tracks;
    for (const auto& [alone, shared] : times) {
      tracks.push_back({.stages = {}, .alone = alone, .shared = shared});
    }
    return worth_side_by_side(tracks);
  };
  EXPECT_TRUE(worth({{20e3, 15e3}, {20e3, 15e3}}));
  EXPECT_FALSE(worth({{20e3, 10e3}, {20e3, 10e3}}));  // a hand-over costs more
  EXPECT_FALSE(worth({{40e3, 22e3}, {4e3, 4e3}}));    // one would wait for the other
  EXPECT_FALSE(worth({{20e3, 40e3}}));
  EXPECT_FALSE(worth({}));
}

/// Layers whose chunks are worth a hand-over to a thread of their own.
Graph stack(int64_t layers, int64_t hidden) {
  Unit unit("stack.rnn", R"(cell Layer[I, H](x: [I]) -> h {
  state h: [H]
  param W, V: [H, I]
  param R, S: [H, H]
  g = sigmoid(V @ x[t] + S @ h[t-1])
  h[t] = g * h[t-1] + (1 - g) * tanh(0.1 * (W @ x[t] + R @ h[t-1]))
}
network Stack[F, H, L](x: [F]) -> y {
  y = x
  for l in 0..L { y = Layer[H = H](y) }
})");
  const DimBindings dims = {{"F", 40}, {"H", hidden}, {"L", layers}};
  std::optional<Graph> graph = unit.lower("Stack", dims);
  RNNC_CHECK(graph.has_value(), "{}", unit.render());
  graph->bind(dims);
  return *graph;
}

TEST(Tracks, HaveChunksEnoughToMeet) {
  const auto chunk = [](const Graph& graph, int threads, int64_t batch) {
    return build_plan(graph, {.batch = batch, .max_steps = 128, .machine = cpu_machine(threads)})
        ->chunk;
  };
  EXPECT_EQ(chunk(stack(4, 72), 1, 1), 128);
  EXPECT_EQ(chunk(stack(4, 72), 2, 1), 16);
  EXPECT_EQ(chunk(stack(1, 72), 2, 1), 128);   // nothing to meet
  EXPECT_EQ(chunk(stack(4, 512), 2, 1), 128);  // its weights do not stay where they are
}

TEST(Tracks, GiveTheBitsOfOneThread) {
  const Graph graph = stack(4, 72);
  for (const auto& [batch, steps] : {std::pair<int64_t, int64_t>(1, 77), {3, 64}, {16, 40}}) {
    const InterpreterArgs args = random_args(graph, steps, batch, 7, true);
    const auto run = [&](int threads, int64_t chunk, PassSet passes) {
      CpuProgram program(graph, {.threads = threads, .chunk = chunk, .passes = passes}, batch,
                         steps);
      program.run(args);
      InterpreterResult result = program.run(args, true);
      EXPECT_EQ(program.allocations_in_last_run(), 0);
      return result;
    };
    const PassSet no_wavefront = PassSet::all().without(Pass::Wavefront);
    const InterpreterResult wanted = run(1, 8, no_wavefront);
    EXPECT_LE(worst_error(wanted, interpret(graph, args)), 2e-5);
    for (const int threads : {1, 2, 5}) {
      for (const int64_t chunk : {0, 8}) {
        SCOPED_TRACE(fmt::format("B {}, threads {}, chunk {}", batch, threads, chunk));
        EXPECT_EQ(worst_error(run(threads, chunk, PassSet::all()), wanted), 0);
      }
    }
  }
}

}  // namespace
}  // namespace rnnc::test
