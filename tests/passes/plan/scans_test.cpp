// Scans of plans: their text, what they compute in tiles of random lengths, and what is refused.
#include "passes/plan/scans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "frontend/unit.h"
#include "ir/plan/plan_parse.h"
#include "ir/plan/scan_exchange.h"
#include "ir/plan/scan_structure.h"
#include "ir/plan/scan_values.h"
#include "passes/build_plan.h"
#include "passes/gradient/differentiate.h"
#include "passes/graph/delays.h"
#include "passes/graph/pipeline.h"
#include "tests/support/cells/loop_cells.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

constexpr const char* kScanCells = R"(
cell Gate[H](p: [H], n: [H]) -> h {
  state h: [H]
  z = sigmoid(p[t])
  h[t] = (1 - z) * h[t-1] + z * n[t]
}
cell Rotation[H](p: [H], n: [H]) -> (u, v) {
  state u, v: [H]
  u[t] = cos(p[t]) * u[t-1] - sin(p[t]) * v[t-1] + n[t]
  v[t] = sin(p[t]) * u[t-1] + cos(p[t]) * v[t-1]
}
cell Running[H](p: [H], n: [H]) -> a {
  state a, b: [H]
  state m: [H] = -1e30
  m[t] = max(m[t-1] - 0.1, p[t])
  a[t] = exp(m[t-1] - 0.1 - m[t]) * a[t-1] + exp(p[t] - m[t]) * n[t]
  b[t] = min(0.5 + b[t-1], n[t] * a[t])
}
cell Sums[H](p: [H], n: [H]) -> y {
  state a, b: [H]
  state m: [H] = -1e30
  m[t] = max(m[t-1] - 0.1, p[t])
  kept = exp(m[t-1] - 0.1 - m[t])
  added = exp(p[t] - m[t])
  a[t] = kept * a[t-1] + added * n[t]
  b[t] = kept * b[t-1] + added
  y = a[t] / b[t]
}
cell Bundle[H](p: [H]) -> y {
  state u: [H]
  u[t] = sigmoid(p[t]) * u[t-1] + tanh(p[t])
  y = u[t] * exp(p[t])
}
cell Late[H](p: [H], n: [H]) -> h {
  state h: [H]
  h[t] = tanh(p[t]) * h[t-1] - 0.3 * h[t-3] + n[t]
}
cell Far[H](p: [H]) -> h {
  state h: [H]
  h[t] = 0.5 * h[t-5] + p[t]
}
cell Bent[H](p: [H]) -> h {
  state h: [H]
  h[t] = tanh(h[t-1] * p[t])
}
cell Dense[H](p: [H]) -> h {
  state h: [H]
  param R: [H, H]
  h[t] = tanh(R @ h[t-1] + p[t])
}
)";

Graph cell(const std::string& name, int64_t size = 3) {
  Unit unit("scans.rnn", kScanCells);
  std::optional<Graph> graph = unit.lower(name, {{"H", size}});
  RNNC_CHECK(graph.has_value(), "{}", unit.render());
  graph->bind({{"H", size}});
  run_delays(*graph);
  return *std::move(graph);
}

Result<Plan> scan_plan(const std::string& name, PlanOptions options = {}) {
  options.machine = h200_machine();
  options.strategy = Strategy::Scan;
  return build_plan(cell(name), options);
}

ScanLaunch& scan_of(Plan& plan) {
  return std::get<ScanLaunch>(plan.stages.back().launches[0]);
}

std::string message_of(const Result<Plan>& plan) {
  return plan ? "none" : plan.error().message;
}

class Scans : public testing::TestWithParam<const char*> {};

TEST_P(Scans, ComputeWhatTheInterpreterDoes) {
  const Graph graph = cell(GetParam());
  for (const int64_t steps : {1, 2, 7, 33}) {
    for (const bool sequences : {false, true}) {
      SCOPED_TRACE(fmt::format("T {}{}", steps, sequences ? ", sequences" : ""));
      const Result<Plan> plan = scan_plan(
          GetParam(),
          {.batch = 3, .max_steps = steps, .chunk = 9, .lengths = sequences, .resets = sequences});
      ASSERT_TRUE(plan) << plan.error().message;
      const InterpreterArgs args = random_args(graph, steps, 3, 4, true);
      SequenceArgs ends;
      for (int64_t b = 0; sequences && b < 3; ++b) ends.lengths.push_back(b * steps / 2);
      for (int64_t i = 0; sequences && i < 3 * steps; ++i) ends.resets.push_back(i % 5 == 0);
      const InterpreterResult expected =
          interpret_sequences(graph, args, ends.lengths, ends.resets);
      const InterpreterResult actual = execute_plan(*plan, args, ends);
      for (size_t i = 0; i < expected.outputs.size(); ++i) {
        EXPECT_LE(test::error_of(actual.outputs[i], expected.outputs[i]), 2e-5);
      }
      for (size_t i = 0; i < expected.final_states.size(); ++i) {
        EXPECT_LE(test::error_of(actual.final_states[i], expected.final_states[i]), 2e-5);
      }
    }
  }
}

TEST_P(Scans, ComeBackFromText) {
  const Result<Plan> plan = scan_plan(GetParam());
  ASSERT_TRUE(plan) << plan.error().message;
  const Result<Plan> parsed = parse_plan(to_string(*plan));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_TRUE(*parsed == *plan) << to_string(*parsed);
}

INSTANTIATE_TEST_SUITE_P(Cells, Scans,
                         testing::Values("Gate", "Rotation", "Running", "Sums", "Late"),
                         [](const auto& name) { return name.param; });

TEST(ScanPlans, SayTheirRounds) {
  Result<Plan> plan = scan_plan("Running");
  ASSERT_TRUE(plan) << plan.error().message;
  const std::string text = to_string(*plan);
  EXPECT_NE(text.find(" carrying "), std::string::npos);
  for (const char* part : {"in tiles of 16 x 16 steps x 1 channels in groups of 16, exchange in b",
                           "      max of a", "      sum of a", ", bounded: %", "      min of a"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

/// What a thread keeps of a step: how many values, and whether they are the inputs themselves.
std::pair<int64_t, bool> kept_of(const char* name) {
  Result<Plan> plan = scan_plan(name);
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  const auto& launch = std::get<ScanLaunch>(plan->stages.back().launches[0]);
  const std::vector<bool> kept = scan_values(*plan, launch);
  bool inputs = true;
  for (size_t id = 0; id < kept.size(); ++id) {
    const Instruction& instruction = plan->kernels[launch.kernel].body[id];
    if (kept[id] && instruction.kind != Instruction::Kind::Load) inputs = false;
  }
  return {std::ranges::count(kept, true), inputs};
}

TEST(ScanPlans, KeepWhatNoStateIsPartOf) {
  EXPECT_EQ(kept_of("Gate"), std::pair(int64_t{2}, false));      // 1 - z, z * n
  EXPECT_EQ(kept_of("Rotation"), std::pair(int64_t{3}, false));  // cos(p), sin(p), n; not -sin(p)
  // Not sigmoid(p), tanh(p) and exp(p): there is one input.
  EXPECT_EQ(kept_of("Bundle"), std::pair(int64_t{1}, true));
}

/// Per round, how many instructions a thread keeps that it makes with the round's maps.
std::vector<int64_t> made_of(const char* name, DType dtype = DType::f32) {
  Result<Plan> plan = scan_plan(name, {.dtype = dtype});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  const std::vector<int> made_in = scan_values_of_rounds(*plan, scan_of(*plan));
  std::vector<int64_t> made;
  for (size_t round = 0; round < scan_of(*plan).rounds.size(); ++round) {
    made.push_back(std::ranges::count(made_in, static_cast<int>(round)));
  }
  return made;
}

TEST(ScanPlans, KeepWhatEarlierRoundsArePartOf) {
  EXPECT_EQ(made_of("Gate"), (std::vector<int64_t>{0}));
  EXPECT_EQ(made_of("Sums"), (std::vector<int64_t>{0, 2}));  // both exponentials
  EXPECT_EQ(made_of("Sums", DType::bf16), (std::vector<int64_t>{0, 0}));
}

TEST(ScanPlans, JoinRoundsThatDecayAlike) {
  const auto rounds = [](const Machine& machine) {
    Result<Plan> plan =
        build_plan(cell("Sums"), {.max_steps = 64, .machine = machine, .strategy = Strategy::Scan});
    RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
    std::vector<size_t> states;
    for (const ScanRound& round : scan_of(*plan).rounds) states.push_back(round.states.size());
    return states;
  };
  EXPECT_EQ(rounds(h200_machine()), (std::vector<size_t>{1, 2}));
  EXPECT_EQ(rounds(cpu_machine(2)), (std::vector<size_t>{1, 1, 1}));
}

TEST(ScanPlans, ExchangeNoMoreThanTheirMapsAre) {
  const auto structure = [](const char* name) {
    Result<Plan> plan = scan_plan(name);
    RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
    const ScanLaunch& scan = scan_of(*plan);
    const Kernel& kernel = plan->kernels[scan.kernel];
    return std::pair(structure_of(kernel, scan.rounds.back()),
                     scan_exchange_words(kernel, scan.rounds, scan.group));
  };
  EXPECT_EQ(structure("Gate"), std::pair(ScanStructure::Scaled, int64_t{1 + 1 + 1}));
  EXPECT_EQ(structure("Rotation"), std::pair(ScanStructure::Rotation, int64_t{2 + 2 + 2}));
  EXPECT_EQ(structure("Sums"), std::pair(ScanStructure::Scaled, int64_t{3 + 1 + 2 + 2}));
  EXPECT_EQ(structure("Late"), std::pair(ScanStructure::Full, int64_t{9 + 3 + 3}));
}

/// A backward half whose gates need the state before the step, which is an output.
TEST(ScanPlans, ReadStepsOfTheStepBeforeWhereTheyLie) {
  Graph graph = cell("Gate");
  RNNC_CHECK(run_pipeline(graph, {.training = true}).has_value(), "the pipeline refuses");
  DifferentiateOptions options = DifferentiateOptions::all(graph, {false});
  options.outputs = true;
  const Graph half = differentiate(graph, options).backward;
  const auto text = [&](const Machine& machine, Strategy strategy) {
    const Result<Plan> plan =
        plan_graph(half, {.max_steps = 64, .machine = machine, .strategy = strategy});
    RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
    return to_string(*plan);
  };
  const std::string scan = text(h200_machine(), Strategy::Scan);
  EXPECT_NE(scan.find(" a step earlier in tiles of "), std::string::npos) << scan;
  EXPECT_EQ(scan.find("earlier b"), std::string::npos) << scan;
  EXPECT_NE(text(h200_machine(), Strategy::Loop).find("earlier b"), std::string::npos);
  EXPECT_NE(text(cpu_machine(2), Strategy::Scan).find("earlier b"), std::string::npos);
}

TEST(ScanPlans, HaveTilesByTheirChannels) {
  const auto tiles = [](const char* name, int64_t size, int64_t batch) {
    const Result<Plan> plan = build_plan(
        cell(name, size),
        {.batch = batch, .max_steps = 4096, .machine = h200_machine(), .strategy = Strategy::Scan});
    RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
    const auto& scan = std::get<ScanLaunch>(plan->stages.back().launches[0]);
    return std::array{scan.warps, scan.steps_of_warp, scan.items, scan.group};
  };
  using Tile = std::array<int64_t, 4>;
  EXPECT_EQ(tiles("Gate", 64, 1), (Tile{16, 16, 2, 16}));
  EXPECT_EQ(tiles("Gate", 33, 1), (Tile{16, 16, 1, 16}));
  EXPECT_EQ(tiles("Gate", 1536, 8), (Tile{8, 8, 2, 1}));
  EXPECT_EQ(tiles("Gate", 512, 8), (Tile{8, 8, 2, 4}));
  EXPECT_EQ(tiles("Rotation", 1536, 8), (Tile{8, 16, 1, 1}));
  EXPECT_EQ(tiles("Late", 2, 1), (Tile{8, 16, 1, 16}));
}

TEST(ScanPlans, HaveShortTilesOfLongSteps) {
  const Result<Plan> plan = build_plan(
      loop_cell("Deep", 64),
      {.batch = 1, .max_steps = 4096, .machine = h200_machine(), .strategy = Strategy::Scan});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const auto& scan = std::get<ScanLaunch>(plan->stages.back().launches[0]);
  EXPECT_GT(plan->kernels[scan.kernel].body.size(), 600u);
  EXPECT_EQ(scan.steps_of_warp * scan.items, 2);
}

TEST(ScanPlans, AreTakenWhereSequencesAreLongAndChannelsFew) {
  const auto takes_scan = [](int64_t size, int64_t batch, int64_t steps) {
    Graph graph = cell("Gate", size);
    const Result<Plan> plan =
        build_plan(graph, {.batch = batch, .max_steps = steps, .machine = h200_machine()});
    RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
    EXPECT_EQ(plan->chunk, steps);  // nothing but what tiles exchange is kept of a chunk
    return std::holds_alternative<ScanLaunch>(plan->stages.back().launches[0]);
  };
  EXPECT_TRUE(takes_scan(64, 1, 1024));
  EXPECT_TRUE(takes_scan(64, 1, 1 << 20));
  EXPECT_FALSE(takes_scan(64, 1, 32));
  EXPECT_TRUE(takes_scan(1024, 64, 512));
  EXPECT_FALSE(takes_scan(2048, 64, 64));
}

TEST(ScanPlans, AreTakenOnACpuWhereItsThreadsHaveTooFewChannels) {
  const auto takes_scan = [](int threads, int64_t size, int64_t batch, int64_t steps) {
    const Result<Plan> plan = build_plan(
        cell("Gate", size), {.batch = batch, .max_steps = steps, .machine = cpu_machine(threads)});
    RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
    return std::holds_alternative<ScanLaunch>(plan->stages.back().launches[0]);
  };
  EXPECT_TRUE(takes_scan(16, 3, 1, 1 << 18));
  EXPECT_FALSE(takes_scan(2, 3, 1, 1 << 18));  // two passes by two threads gain nothing
  EXPECT_FALSE(takes_scan(16, 3, 1, 512));     // one tile
  EXPECT_FALSE(takes_scan(16, 300, 1, 1 << 18));
  EXPECT_FALSE(takes_scan(16, 3, 16, 1 << 18));
}

TEST(ScanPlans, HaveNoExchangeOnACpu) {
  for (const char* name : {"Gate", "Rotation", "Running", "Late"}) {
    const Result<Plan> plan = build_plan(
        cell(name), {.max_steps = 64, .machine = cpu_machine(2), .strategy = Strategy::Scan});
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_NE(to_string(*plan).find(" in tiles of 1 x 1024 steps\n"), std::string::npos);
    const Result<Plan> parsed = parse_plan(to_string(*plan));
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_TRUE(*parsed == *plan) << to_string(*parsed);
  }
}

TEST(ScanPlans, ThatCannotBeSayWhy) {
  const auto refusal = [](const char* name) { return message_of(scan_plan(name)); };
  const std::string hint = " (leave the strategy out, and rnnc finds a way)";
  EXPECT_EQ(refusal("Bent"),
            "`Bent` at batch 1 cannot run with strategy `scan`: h: tanh makes it "
            "nonlinear" +
                hint);
  EXPECT_EQ(
      refusal("Far"),
      "`Far` at batch 1 cannot run with strategy `scan`: h, h@2, h@3, h@4, h@5: 5 of its states "
      "need each other, and a scan takes at most 4" +
          hint);
  EXPECT_EQ(refusal("Dense"),
            "`Dense` at batch 1 cannot run with strategy `scan`: it has no "
            "recurrence without products" +
                hint);
  PlanOptions options;
  options.passes = PassSet::all().without(Pass::Loop);
  EXPECT_EQ(message_of(scan_plan("Gate", options)), "strategy `scan` needs the pass `loop`");
}

/// What a loop is that lowering does not make today.
TEST(ScanPlans, AreNotMadeOfOtherLoops) {
  const auto refusal = [](const Machine& machine, const auto& change) {
    Result<Plan> plan = build_plan(cell("Gate"), {.machine = machine, .strategy = Strategy::Loop});
    RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
    auto& loop = std::get<LoopLaunch>(plan->stages.back().launches[0]);
    change(loop, plan->kernels[loop.kernel]);
    return run_scans(*plan, machine).refusal;
  };
  const auto output = [](const LoopLaunch& loop, const Kernel& kernel) {
    for (uint32_t i = 0; i < kernel.arguments.size(); ++i) {
      if (kernel.arguments[i].written && i != loop.carries[0].store) return i;
    }
    RNNC_CHECK(false, "the loop stores only what it carries");
  };
  const auto is_input = [](const LoopLaunch& loop, const Kernel& kernel, uint32_t i) {
    return !kernel.arguments[i].written && i != loop.carries[0].load;
  };
  const auto unchanged = [](LoopLaunch&, Kernel&) {};
  const auto shared_output = [&](LoopLaunch& loop, Kernel& kernel) {
    kernel.arguments[output(loop, kernel)].vector = false;
  };
  EXPECT_EQ(refusal(h200_machine(), unchanged), "");
  EXPECT_EQ(refusal(cpu_machine(2), unchanged), "");
  EXPECT_EQ(refusal(h200_machine(),
                    [](LoopLaunch& loop, Kernel& kernel) {
                      kernel.arguments[loop.carries[0].load].vector = false;
                    }),
            "h: one of its states is the same for all elements");
  EXPECT_EQ(refusal(h200_machine(),
                    [&](LoopLaunch& loop, Kernel& kernel) {
                      for (uint32_t i = 0; i < kernel.arguments.size(); ++i) {
                        if (!is_input(loop, kernel, i)) continue;
                        loop.accesses[i] = loop.accesses[output(loop, kernel)];
                      }
                    }),
            "h: it reads at a step what it stores at an earlier one");
  EXPECT_EQ(refusal(h200_machine(),
                    [](LoopLaunch& loop, Kernel&) { loop.carries.resize(65, loop.carries[0]); }),
            "h: it has 65 states");
  EXPECT_EQ(refusal(cpu_machine(2), shared_output),
            "h: it stores a value that is the same for all elements");
  EXPECT_EQ(refusal(h200_machine(), shared_output), "");
}

TEST(ScanPlans, AreVerified) {
  const auto complaint = [](const char* name, const auto& damage) {
    Result<Plan> plan = scan_plan(name);
    RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
    damage(*plan, scan_of(*plan));
    const Status status = verify(*plan);
    return status ? "none" : status.error().message;
  };
  const auto gate = [&](const auto& damage) { return complaint("Gate", damage); };
  const std::string place = "stage 0: launch 0: ";
  EXPECT_EQ(gate([](Plan&, ScanLaunch&) {}), "none");
  EXPECT_EQ(gate([](Plan&, ScanLaunch& l) { l.rounds.clear(); }), place + "a carry is in no round");
  EXPECT_EQ(gate([](Plan&, ScanLaunch& l) { l.rounds.push_back(l.rounds[0]); }),
            place + "round 1: state 0 is in another too");
  EXPECT_EQ(gate([](Plan&, ScanLaunch& l) { l.rounds[0].states.clear(); }),
            place + "round 0: 0 states");
  EXPECT_EQ(gate([](Plan&, ScanLaunch& l) { l.rounds[0].offsets.clear(); }),
            place + "round 0: 1 coefficients and 0 offsets of 1 states");
  EXPECT_EQ(gate([](Plan&, ScanLaunch& l) { l.rounds[0].offsets[0] = 99; }),
            place + "round 0: %99 is no value");
  EXPECT_EQ(gate([](Plan&, ScanLaunch& l) { l.rounds[0].offsets[0] = 0; }),
            place + "round 0: %0 depends on states of no earlier round");
  EXPECT_EQ(gate([](Plan&, ScanLaunch& l) {
              std::swap(l.rounds[0].offsets, l.rounds[0].coefficients);
            }).substr(0, 40),
            place + "the form of a0 gives ");
  EXPECT_EQ(gate([](Plan&, ScanLaunch& l) { l.accesses[1] = l.accesses[3]; }),
            place + "a1 loads what a3 stores");
  EXPECT_EQ(gate([](Plan&, ScanLaunch& l) { l.earlier = {0}; }),
            place + "a0 a step earlier is no sequence of the caller's");
  EXPECT_EQ(gate([](Plan&, ScanLaunch& l) {
              l.earlier = {1};
              l.warps = 1;
              l.exchange = kNoBuffer;
            }),
            place + "a scan without an exchange reads no earlier steps");
  EXPECT_EQ(gate([](Plan&, ScanLaunch& l) { l.warps = 0; }), place + "tiles of no steps");
  EXPECT_EQ(gate([](Plan&, ScanLaunch& l) { l.group = 0; }),
            place + "1 channels of 3 for each thread, in groups of 0");
  EXPECT_EQ(gate([](Plan&, ScanLaunch& l) { l.items = 2; }),
            place + "2 channels of 3 for each thread, in groups of 16");
  EXPECT_EQ(gate([](Plan&, ScanLaunch& l) { l.exchange = kNoBuffer; }),
            place + "tiles of several warps have no exchange");
  EXPECT_EQ(gate([](Plan& p, ScanLaunch& l) { p.buffers[l.exchange].width = 1; }),
            place + "b" + "6 is no exchange of this scan");
}

}  // namespace
}  // namespace rnnc::test
