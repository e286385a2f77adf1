// The lags of networks (of small plans: cases/wavefront.txt), and that networks with lags compute
// what the interpreter does around the boundaries of chunks.
#include "passes/plan/wavefront.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "frontend/unit.h"
#include "passes/build_plan.h"
#include "passes/candidates.h"
#include "passes/cost/cost.h"
#include "passes/persistent/resident.h"
#include "tests/passes/cases.h"
#include "tests/passes/plan/small_plan.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

// ---- Networks ----

constexpr char kSource[] = R"(
cell Elman[I, H](x: [I]) -> h {
  state h: [H]
  param W: [H, I]
  param R: [H, H]
  h[t] = tanh(W @ x[t] + R @ h[t-1])
}
cell LSTM[I, H](x: [I]) -> h {
  state h, c: [H]
  param W_i, W_f, W_g, W_o: [H, I]
  param R_i, R_f, R_g, R_o: [H, H]
  i = sigmoid(W_i @ x[t] + R_i @ h[t-1])
  f = sigmoid(W_f @ x[t] + R_f @ h[t-1])
  g = tanh(W_g @ x[t] + R_g @ h[t-1])
  o = sigmoid(W_o @ x[t] + R_o @ h[t-1])
  c[t] = f * c[t-1] + i * g
  h[t] = o * tanh(c[t])
}
cell Norm[H](x: [H]) -> y {
  param gain, bias: [H]
  y = layernorm(x[t], gain, bias)
}
cell Decay[H](x: [H]) -> s {
  state s: [H]
  param a: [H]
  s[t] = a * s[t-1] + x[t]
}
cell Late[H](x: [H]) -> y {
  y = x[t-1] + 0.5 * x[t-3]
}
network Stack[F = 3, H = 4](x: [F]) -> y {
  y = x
  for l in 0..3 { y = LSTM[H = H](y) }
}
network Residual[F = 4](x: [F]) -> y {
  y = x
  for l in 0..4 { y = y + Elman[H = F](y) }
  y = y + x
}
network Normed[F = 3, H = 4](x: [F]) -> y {
  y = Elman[H = H](x)
  for l in 0..2 { y = Elman[H = H](Norm(y)) }
  y = Norm(y)
}
network Towers[F = 3, H = 4](x: [F]) -> y {
  a = Elman[H = H](x)
  for l in 0..2 { a = Elman[H = H](a) }
  b = Elman[H = H](x)
  y = Elman[H = H](concat(a, b, x))
}
network Mixed[F = 3, H = 4](x: [F]) -> y {
  y = Elman[H = H](Late(Decay(Elman[H = H](Late(x)))))
  y = Decay(y) + Late(y)
}
network Both[F = 3, H = 4](x: [F]) -> y {
  y = x
  for l in 0..2 {
    a = Elman[H = H](Elman[H = H](y))
    b = reverse Elman[H = H](y)
    y = concat(a, b)
  }
}
)";

Graph network(const std::string& name) {
  Unit unit("wavefront_test.rnn", kSource);
  std::optional<Graph> graph = unit.lower(name, {});
  RNNC_CHECK(graph.has_value(), "{}", unit.render());
  const Result<DimBindings> bindings = complete_bindings(*graph, {});
  RNNC_CHECK(bindings.has_value(), "{}", bindings.error().message);
  graph->bind(*bindings);
  return *std::move(graph);
}

Plan plan_of(const Graph& graph, int64_t chunk, const SequenceArgs& sequences = {},
             PassSet passes = PassSet::all()) {
  Result<Plan> plan = build_plan(graph, {.dtype = DType::f64,
                                         .batch = 2,
                                         .max_steps = 100,
                                         .chunk = chunk,
                                         .lengths = !sequences.lengths.empty(),
                                         .resets = !sequences.resets.empty(),
                                         .passes = passes});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

/// By sweep, of the recurrences that run step by step.
std::vector<std::vector<uint32_t>> recurrence_lags(const Plan& plan) {
  std::vector<std::vector<uint32_t>> result(plan.sweeps);
  for (const Stage& stage : plan.stages) {
    if (stage.domain == Domain::Step) result[stage.sweep].push_back(stage.lag);
  }
  for (std::vector<uint32_t>& sweep : result) std::ranges::sort(sweep);
  return result;
}

TEST(Wavefront, LagsOfNetworks) {
  using Lags = std::vector<std::vector<uint32_t>>;
  EXPECT_EQ(recurrence_lags(plan_of(network("Stack"), 4)), (Lags{{0, 1, 2}}));
  EXPECT_EQ(recurrence_lags(plan_of(network("Residual"), 4)), (Lags{{0, 1, 2, 3}}));
  EXPECT_EQ(recurrence_lags(plan_of(network("Normed"), 4)), (Lags{{0, 1, 2}}));
  EXPECT_EQ(recurrence_lags(plan_of(network("Towers"), 4)), (Lags{{0, 0, 1, 2, 3}}));
  EXPECT_EQ(recurrence_lags(plan_of(network("Mixed"), 4)), (Lags{{0, 1}}));
  EXPECT_EQ(recurrence_lags(plan_of(network("Both"), 4)), (Lags{{0, 0, 1}, {0, 0, 1}, {}}));
}

double greatest_error(const std::vector<std::vector<double>>& actual,
                      const std::vector<std::vector<double>>& expected) {
  EXPECT_GE(actual.size(), expected.size());  // implied states come last
  double greatest = 0;
  for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    greatest = std::max(greatest, error_of(actual[i], expected[i]));
  }
  return greatest;
}

void compare(const Graph& graph, int64_t steps, int64_t chunk, const SequenceArgs& sequences = {}) {
  SCOPED_TRACE(fmt::format("T {}, chunk {}", steps, chunk));
  const InterpreterArgs args = random_args(graph, steps, 2, 7, steps % 2 == 0);
  const InterpreterResult expected =
      interpret_sequences(graph, args, sequences.lengths, sequences.resets);
  const InterpreterResult actual = execute_plan(plan_of(graph, chunk, sequences), args, sequences);
  EXPECT_LE(greatest_error(actual.outputs, expected.outputs), 1e-10);
  EXPECT_LE(greatest_error(actual.final_states, expected.final_states), 1e-10);
}

TEST(Wavefront, NetworksAgreeWithTheInterpreterAroundChunkBoundaries) {
  for (const char* name : {"Stack", "Residual", "Normed", "Towers", "Mixed", "Both"}) {
    SCOPED_TRACE(name);
    const Graph graph = network(name);
    for (const int64_t chunk : {1, 2, 5}) {
      for (const int64_t steps : {1, 4, 5, 6, 14}) compare(graph, steps, chunk);
    }
  }
}

TEST(Wavefront, NetworksAgreeWithLengthsAndResets) {
  const SequenceArgs sequences = {.lengths = {9, 4},
                                  .resets = {0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0}};
  for (const char* name : {"Stack", "Normed", "Towers", "Mixed", "Both"}) {
    SCOPED_TRACE(name);
    for (const int64_t chunk : {1, 2, 4}) compare(network(name), 9, chunk, sequences);
  }
}

TEST(Wavefront, ChangesNoBit) {
  for (const char* name : {"Stack", "Residual", "Towers", "Both"}) {
    SCOPED_TRACE(name);
    const Graph graph = network(name);
    const InterpreterArgs args = random_args(graph, 11, 2, 3);
    const InterpreterResult with = execute_plan(plan_of(graph, 3), args);
    const InterpreterResult without =
        execute_plan(plan_of(graph, 3, {}, PassSet::all().without(Pass::Wavefront)), args);
    EXPECT_EQ(with.outputs, without.outputs);
    EXPECT_EQ(with.final_states, without.final_states);
  }
}

// ---- Chunks ----

Plan plan_for(const Graph& graph, int64_t batch, const Machine& machine, bool wavefront) {
  PassSet passes = PassSet::all().without(Pass::Resident);
  if (!wavefront) passes = passes.without(Pass::Wavefront);
  return *build_plan(graph,
                     {.batch = batch, .max_steps = 64, .passes = passes, .machine = machine});
}

TEST(ChooseChunk, OnACpuFitsItsCachesUnlessRowsAreWide) {
  Plan plan = plan_for(network("Stack"), 16, cpu_machine(1), false);
  const auto chunk_of_width = [&](int64_t width, int64_t steps, int threads = 1) {
    for (Buffer& buffer : plan.buffers) {
      if (buffer.extent == Extent::Chunk) buffer.width = width;
    }
    return choose_chunk(plan, steps, false, cpu_machine(threads));
  };
  const int64_t elements = (1 << 20) / static_cast<int64_t>(size_of(DType::f32));
  EXPECT_EQ(chunk_of_width(elements / 1024, 1000), 1024 / 16);
  EXPECT_EQ(chunk_of_width(elements / 1024, 40), 40);
  EXPECT_EQ(chunk_of_width(elements / 256, 1000), 256 / 16);
  EXPECT_EQ(chunk_of_width(elements / 255, 1000), 1024 / 16);  // as many rows as products want
  EXPECT_EQ(chunk_of_width(1, 1000), 256);
  EXPECT_EQ(chunk_of_width(elements / 256, 1000, 2), 256 / 16);
  EXPECT_EQ(chunk_of_width(elements / 256, 1000, 8), 4 * 256 / 16);
  EXPECT_EQ(chunk_of_width(elements / 255, 1000, 8), 1024 / 16);
}

TEST(ChooseChunk, OnACpuIsShorterWhereThreadsHaveRecurrencesEach) {
  Plan plan = plan_for(network("Stack"), 1, cpu_machine(1), false);
  ASSERT_TRUE(run_wavefront(plan));
  const int recurrences = static_cast<int>(std::ranges::max(plan.stages, {}, &Stage::lag).lag) + 1;
  ASSERT_GT(recurrences, 1);
  plan = plan_for(network("Stack"), 1, cpu_machine(1), false);
  const auto chunk = [&](int threads) {
    return choose_chunk(plan, 256, true, cpu_machine(threads));
  };
  EXPECT_EQ(chunk(recurrences), 256 / 8);
  EXPECT_EQ(chunk(4 * recurrences), 256);  // all share each
}

TEST(ChooseChunk, AWavefrontHasShorterChunksAndIsFaster) {
  Plan plan = plan_for(network("Stack"), 16, h200_machine(), false);
  const Machine machine = h200_machine();
  const int64_t alone = choose_chunk(plan, 256, false, machine);
  const int64_t chunk = choose_chunk(plan, 256, true, machine);
  EXPECT_LT(chunk, alone);
  EXPECT_GE(chunk, 4);
  plan.chunk = alone;
  const double before = cost_of(plan, 256, machine).seconds;
  plan.chunk = chunk;
  ASSERT_TRUE(run_wavefront(plan));
  const double after = cost_of(plan, 256, machine).seconds;
  EXPECT_LT(after, before / 2);
}

int64_t training_chunk(int64_t batch, const ChunkSlack& slack) {
  const Graph half = load_backward_half("lstm", {{"H", 1024}, {"I", 1024}});
  return plan_graph(half, {.dtype = DType::bf16,
                           .batch = batch,
                           .max_steps = 512,
                           .slack = slack,
                           .machine = h200_machine()})
      ->chunk;
}

TEST(ChooseChunk, InTrainingIsShorterWhereItTakesMuchMemory) {
  const ChunkSlack usual = slack_in_training(ResidualChoice::Auto, DType::bf16);
  EXPECT_EQ(training_chunk(16, usual), training_chunk(16, {}));
  EXPECT_LT(training_chunk(64, usual), training_chunk(64, {}));
  const ChunkSlack least = slack_in_training(ResidualChoice::Least, DType::bf16);
  EXPECT_LT(training_chunk(16, least), training_chunk(16, usual));
  EXPECT_LT(training_chunk(64, least), training_chunk(64, usual));
}

// ---- Resident recurrences ----

constexpr PassSet kApart = PassSet::all().without(Pass::Stack);

Plan resident_plan(int64_t width, Machine machine, PassSet passes = kApart) {
  return *build_plan(test::network("Stack", width), {.dtype = DType::bf16,
                                                     .batch = 16,
                                                     .max_steps = 5000,
                                                     .passes = passes,
                                                     .machine = std::move(machine)});
}

int64_t resident_blocks(const Plan& plan) {
  int64_t blocks = 0;
  for (const Stage& stage : plan.stages) {
    if (!is_resident(stage)) continue;
    const RecurrenceTile& tile = std::get<RecurrenceLaunch>(stage.launches[0]).tile;
    blocks += tile.groups * tile.blocks;
  }
  return blocks;
}

uint32_t last_lag(const Plan& plan) {
  return std::ranges::max(plan.stages, {}, &Stage::lag).lag;
}

TEST(Wavefront, ResidentRecurrencesShareTheMachine) {
  const Machine machine = h200_machine();
  const Plan plan = resident_plan(512, machine);
  const int64_t layers = most_resident(plan);
  ASSERT_GT(layers, 1);
  EXPECT_EQ(last_lag(plan), layers - 1);
  EXPECT_LE(resident_blocks(plan), machine.units);
  EXPECT_LT(plan.chunk, 5000 / 8);
  const Plan alone = resident_plan(512, machine, kApart.without(Pass::Wavefront));
  EXPECT_EQ(last_lag(alone), 0u);
  EXPECT_GT(resident_blocks(alone), machine.units);
  EXPECT_LT(cost_of(plan, 5000, machine).seconds, 0.8 * cost_of(alone, 5000, machine).seconds);
}

// Of what has no room beside the others, one follows the other, in long chunks.
TEST(Wavefront, ResidentRecurrencesWithoutRoomFollowOneAnother) {
  Machine machine = h200_machine();
  machine.units = 8;
  const Plan plan = resident_plan(512, machine);
  ASSERT_GT(most_resident(plan), 1);
  EXPECT_EQ(last_lag(plan), 0u);
  EXPECT_GT(resident_blocks(plan), machine.units);
  EXPECT_GT(plan.chunk, 128);
  EXPECT_LE(plan.chunk, 512);
}

TEST(ChooseChunk, WithoutChunksInMemoryThereIsOne) {
  SmallPlan small;
  const BufferId x = small.caller("x", Role::Input, Extent::Steps, 8);
  const BufferId y = small.caller("y", Role::Output, Extent::Steps, 8);
  small.stage(Domain::Sequence, {small.tanh({small.row(x)}, {small.row(y)})});
  EXPECT_EQ(choose_chunk(small.plan, 5000, true, h200_machine()), 5000);
}

}  // namespace
}  // namespace rnnc::test
