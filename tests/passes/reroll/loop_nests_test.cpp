// Loops in loops stay loops in loops, in both halves: code grows with the turns of neither, and
// computes what the interpreter does.
#include "passes/reroll/loop_nests.h"

#include <gtest/gtest.h>

#include <functional>

#include "ir/plan/kernel_facts.h"
#include "ir/plan/plan_parse.h"
#include "passes/build_plan.h"
#include "passes/gradient/differentiate.h"
#include "passes/graph/pipeline.h"
#include "tests/passes/cases.h"
#include "tests/passes/reroll/rerolled_plans.h"
#include "tests/support/cells/array_cells.h"
#include "tests/support/cells/graph_of_text.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/gradients/half_check.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

struct NestCell {
  std::string name;
  std::string text;      // of a cell named Cell, of dims N, K and H
  bool backward = true;  // has its backward half loops in loops?
  friend void PrintTo(const NestCell& cell, std::ostream* out) { *out << cell.name; }
};

std::vector<NestCell> nest_cells() {
  return {
      {"Heads",
       "(q: [N * K], k: [N * K], v: [N * H]) -> o {\nstate S[N * K]: [H]\no = zeros(H)\n"
       "for n in 0..N {\nold = zeros(H)\n"
       "for i in 0..K { old = old + k[t][n * K + i] * S[n * K + i][t-1] }\n"
       "u = v[t][n * H:(n + 1) * H] - old\ny = zeros(H)\n"
       "for i in 0..K {\nS[n * K + i][t] = 0.9 * S[n * K + i][t-1] + k[t][n * K + i] * u\n"
       "y = y + q[t][n * K + i] * S[n * K + i][t]\n}\no = o + tanh(y)\n}\n"},
      // Each element of one input with each of another.
      {"Outer",
       "(k: [K], g: [N], x: [H]) -> o {\nstate S[N * K]: [H]\no = zeros(H)\n"
       "for n in 0..N {\nfor i in 0..K {\n"
       "S[n * K + i][t] = 0.9 * S[n * K + i][t-1] + g[t][n] * k[t][i] * x[t]\n"
       "o = o + S[n * K + i][t]\n}\n}\n",
       false},
      // What an earlier loop has computed for all turns of the outer one.
      {"Shared",
       "(k: [K], v: [H]) -> o {\nstate S[N * K]: [H]\nparam g[N]: [H]\nz = 0.1\n"
       "for i in 0..K { z = z + k[t][i] * k[t][i] }\nfor i in 0..K { c[i] = k[t][i] / z }\n"
       "o = zeros(H)\nfor n in 0..N {\nold = zeros(H)\n"
       "for i in 0..K { old = old + c[i] * S[n * K + i][t-1] }\nu = g[n] * v[t] - old\n"
       "for i in 0..K {\nS[n * K + i][t] = 0.9 * S[n * K + i][t-1] + c[i] * u\n"
       "o = o + c[i] * S[n * K + i][t]\n}\n}\n",
       false},
  };
}

Graph graph_of(const NestCell& cell, int64_t outer, int64_t inner) {
  return graph_of_text("cell Cell[N, K, H]" + cell.text + "}\n", "Cell",
                       {{"N", outer}, {"K", inner}, {"H", 5}});
}

size_t nests(const Plan& plan) {
  size_t count = 0;
  for (const Kernel& kernel : plan.kernels) {
    for (const uint32_t around : loops_around(kernel)) count += around == kNoLoop ? 0 : 1;
  }
  return count;
}

class LoopNests : public testing::TestWithParam<NestCell> {};

TEST_P(LoopNests, CodeGrowsWithTheTurnsOfNoLoop) {
  for (const Machine& machine : {cpu_machine(4), h200_machine()}) {
    const Plan few = rerolled_plan(graph_of(GetParam(), 16, 24), machine);
    const Plan many = rerolled_plan(graph_of(GetParam(), 20, 32), machine);
    EXPECT_GE(nests(few), 1u) << to_string(few);
    EXPECT_EQ(nests(few), nests(many));
    EXPECT_EQ(instructions(few), instructions(many));
  }
}

TEST_P(LoopNests, ComputesTheSame) {
  for (const auto& [outer, inner] : {std::pair<int64_t, int64_t>{6, 16}, {20, 20}}) {
    expect_steps_of_interpreter(graph_of(GetParam(), outer, inner), 7, /*given_states=*/true);
  }
}

TEST_P(LoopNests, BackwardHalvesComputeTheSame) {
  const Plan plan = expect_gradients_of_interpreter(graph_of(GetParam(), 8, 16));
  EXPECT_TRUE(!GetParam().backward || nests(plan) > 0) << to_string(plan);
}

INSTANTIATE_TEST_SUITE_P(All, LoopNests, testing::ValuesIn(nest_cells()),
                         [](const auto& made) { return made.param.name; });

TEST(LoopNestGradients, RandomNestsComputeTheSame) {
  size_t kept = 0;
  for (uint64_t seed = 0; seed < 48; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}:\n{}", seed, random_nest_cell(seed)));
    const auto outer = static_cast<int64_t>(9 + seed % 6);
    const Graph graph = random_nest_graph(seed, outer, static_cast<int64_t>(8 + seed % 5), 5);
    check_halves(
        graph, draw_of(seed),
        [&kept](const Plan& plan, const InterpreterArgs& args, const SequenceArgs& sequences) {
          if (nests(plan) > 0) ++kept;
          return Result<InterpreterResult>(execute_plan(plan, args, sequences));
        });
  }
  EXPECT_GE(kept, 20u);
}

// ---- What becomes no loop ----

/// A nest that has to be unrolled: `max` over arrays that are gone through from both ends.
constexpr uint64_t kUnrolledSeed = 3;

TEST(LongLoops, AreSteps) {
  const Graph few = random_nest_graph(kUnrolledSeed, 4, 9, 5);
  const Graph many = random_nest_graph(kUnrolledSeed, 12, 12, 5);
  for (const Machine& machine : {cpu_machine(4), h200_machine()}) {
    EXPECT_EQ(loops_over_steps(rerolled_plan(few, machine)), 1u);
    EXPECT_EQ(loops_over_steps(rerolled_plan(many, machine)), 0u);
  }
}

// ---- What texts say of nests, and the verifier ----

TEST(LoopNestText, IsReadBack) {
  const Plan plan = rerolled_plan(graph_of(nest_cells()[0], 8, 16), cpu_machine(4));
  const Result<Plan> read = parse_plan(to_string(plan));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(to_string(*read), to_string(plan));
}

/// Of the first cell's plan after `damage` to its kernel with a nest.
std::string complaint(const std::function<void(Kernel&)>& damage) {
  Plan plan = rerolled_plan(graph_of(nest_cells()[0], 8, 16), cpu_machine(4));
  for (Kernel& kernel : plan.kernels) {
    if (kernel.loops.size() < 2) continue;
    kernel.name = "k";
    damage(kernel);
    const Status status = verify(plan);
    return status ? "none" : status.error().message;
  }
  return "no loops";
}

TEST(LoopNestVerify, NamesWhatIsWrong) {
  EXPECT_EQ(complaint([](Kernel&) {}), "none");
  const auto expect = [](const std::string& part, const std::function<void(Kernel&)>& damage) {
    const std::string text = complaint(damage);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect("runs 7 times", [](Kernel& k) { k.loops[0].count = 7; });
  expect("is in two", [](Kernel& k) { k.loops.insert(k.loops.begin() + 1, k.loops[0]); });
  expect("a loop of 16 over", [](Kernel& k) { k.loops[1].end = k.loops[0].end + 1; });
}

}  // namespace
}  // namespace rnnc::test
