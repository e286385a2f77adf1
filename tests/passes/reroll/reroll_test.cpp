// What loops over arrays were unrolled to is loops again, whose code does not grow with the arrays,
// and computes what the interpreter does.
#include "passes/reroll/reroll.h"

#include <gtest/gtest.h>

#include <functional>

#include "frontend/unit.h"
#include "passes/build_plan.h"
#include "passes/gradient/differentiate.h"
#include "passes/graph/pipeline.h"
#include "tests/passes/cases.h"
#include "tests/passes/reroll/rerolled_plans.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

struct ArrayCell {
  std::string name;
  std::string text;  // of a cell named Cell, of dims K and H
  size_t loops = 0;  // that its plan has
  bool on_gpu = true;
};

std::vector<ArrayCell> array_cells() {
  return {
      {"Rule",
       "(q: [K], k: [K], v: [H]) -> o {\nstate S[K]: [H]\nold = zeros(H)\n"
       "for i in 0..K { old = old + k[t][i] * S[i][t-1] }\nu = 0.1 * (v[t] - old)\no = zeros(H)\n"
       "for i in 0..K {\nS[i][t] = 0.9 * S[i][t-1] + k[t][i] * u\no = o + q[t][i] * S[i][t]\n}\n",
       2},
      // Of one input, whose parts lie side by side.
      {"OneInput",
       "(x: [2 * K], v: [H]) -> o {\nstate S[K]: [H]\nold = zeros(H)\n"
       "for i in 0..K { old = old + x[t][i] * S[i][t-1] }\nu = 0.1 * (v[t] - old)\no = zeros(H)\n"
       "for i in 0..K {\nS[i][t] = 0.9 * S[i][t-1] + x[t][i] * u\no = o + x[t][K + i] * "
       "S[i][t]\n}\n",
       2},
      // What one loop has computed another takes, which goes down.
      {"Slots",
       "(p: [H], n: [H]) -> y {\nstate m[K]: [H]\nstate c: [H]\nparam a[K]: [H]\nz = zeros(H)\n"
       "for i in 0..K {\ne[i] = exp(a[i] * c[t-1])\nz = z + e[i]\n}\ny = n[t]\n"
       "for j in 0..K {\nw = e[K - 1 - j] / z\n"
       "y = y + w * m[K - 1 - j][t-1] - a[K - 1 - j]\n"
       "m[K - 1 - j][t] = m[K - 1 - j][t-1] + w * (n[t] - m[K - 1 - j][t-1])\n}\n"
       "c[t] = 0.5 * y + p[t]\n",
       2},
      {"Greatest",
       "(v: [H]) -> o {\nstate s[K]: [H]\nparam a[K]: []\no = v[t]\nfor i in 0..K {\n"
       "s[i][t] = tanh(a[i] * s[i][t-1] + v[t])\no = max(o, s[i][t])\n}\n",
       1},
      // Of a step with a product, which a GPU has in one launch with all others.
      {"Steps",
       "(x: [H]) -> h {\nstate h: [H]\nstate S[K]: [H]\nparam W: [H, H]\nparam a[K]: []\n"
       "r = zeros(H)\nfor i in 0..K { r = r + a[i] * S[i][t-1] }\nh[t] = tanh(W @ h[t-1] + r + "
       "x[t])\n"
       "for i in 0..K { S[i][t] = 0.5 * S[i][t-1] + a[i] * h[t] }\n",
       1, false},
      // What carries a whole array cannot load a part of it.
      {"Part",
       "(q: [K], x: [H]) -> o {\nstate S[K]: [H]\no = x[t]\n"
       "for i in 0..K - 3 { o = o + q[t][i] * S[i + 2][t-1] }\n"
       "for i in 0..K { S[i][t] = tanh(q[t][i] * S[i][t-1] + x[t]) }\n",
       0},
  };
}

Graph graph_of(const ArrayCell& cell, int64_t count) {
  Unit unit("cell.rnn", "cell Cell[K, H]" + cell.text + "}\n");
  const std::optional<Graph> made = unit.lower("Cell", {{"K", count}});
  RNNC_CHECK(made.has_value(), "{}", unit.render());
  Graph graph = *made;
  graph.bind({{"K", count}, {"H", 5}});
  return graph;
}

class Reroll : public testing::TestWithParam<ArrayCell> {};

TEST_P(Reroll, CodeDoesNotGrowWithArrays) {
  for (const Machine& machine : {cpu_machine(4), h200_machine()}) {
    if (machine.kind == Machine::Kind::Cuda && !GetParam().on_gpu) continue;
    const Plan few = rerolled_plan(graph_of(GetParam(), 64), machine);
    const Plan many = rerolled_plan(graph_of(GetParam(), 96), machine);
    EXPECT_GE(loops(few), GetParam().loops) << to_string(few);
    if (GetParam().loops > 0) {
      EXPECT_EQ(loops(few), loops(many));
      EXPECT_EQ(instructions(few), instructions(many));
    }
    EXPECT_EQ(loops(rerolled_plan(graph_of(GetParam(), 64), machine,
                                  PassSet::all().without(Pass::Reroll))),
              0u);
  }
}

TEST_P(Reroll, ComputesTheSame) {
  for (const int64_t steps : {1, 7}) {
    expect_steps_of_interpreter(graph_of(GetParam(), 40), steps, /*given_states=*/steps == 7);
  }
}

TEST_P(Reroll, BackwardHalvesComputeTheSame) {
  expect_gradients_of_interpreter(graph_of(GetParam(), 64));
}

INSTANTIATE_TEST_SUITE_P(All, Reroll, testing::ValuesIn(array_cells()),
                         [](const auto& made) { return made.param.name; });

/// So many states fit the registers of none of a GPU's threads; a processor has them in its caches.
TEST(LongLoops, OfManyArraysAreStepsOnAGpu) {
  const ArrayCell part = array_cells().back();
  for (const Machine& machine : {cpu_machine(4), h200_machine()}) {
    const size_t of_many = machine.kind == Machine::Kind::Cuda ? 0 : 1;
    EXPECT_EQ(loops_over_steps(rerolled_plan(graph_of(part, 80), machine)), 1u);
    EXPECT_EQ(loops_over_steps(rerolled_plan(graph_of(part, 96), machine)), of_many);
  }
}

// ---- Why there are no loops ----

std::vector<std::string> reasons(const Plan& plan, Machine::Kind machine) {
  std::vector<std::string> result;
  for (const Stage& stage : plan.stages) {
    for (const Launch& launch : stage.launches) {
      const std::string reason = why_written_out(plan, launch, machine);
      if (!reason.empty()) result.push_back(reason);
    }
  }
  return result;
}

std::string only_reason(const ArrayCell& cell, const Machine& machine) {
  const std::vector<std::string> all =
      reasons(rerolled_plan(graph_of(cell, 96), machine), machine.kind);
  return all.size() == 1 ? all[0] : fmt::format("{} reasons", all.size());
}

TEST(RerollReasons, SayWhyLongCodeIsNoLoop) {
  const std::vector<ArrayCell> cells = array_cells();
  for (const ArrayCell& cell : cells) {
    if (cell.loops == 0) continue;
    EXPECT_EQ(only_reason(cell, cpu_machine(4)), "0 reasons") << cell.name;
  }
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const ArrayCell prefixes = {"Prefixes",
                              "(q: [K], x: [H]) -> o {\nstate S[K]: [H]\nr = x[t]\no = x[t]\n"
                              "for i in 0..K { r = tanh(r + q[t][i] * S[i][t-1])\n"
                              "S[i][t] = 0.5 * r }\no = r\n"};
  expect(only_reason(prefixes, cpu_machine(4)), "instructions: no 8 turns of a loop do the same");
  const ArrayCell variances = {"Variances",
                               "(x: [H]) -> o {\nstate S[K]: [H]\no = x[t]\n"
                               "for i in 0..K { o = o + var(S[i][t-1]) * S[i][t-1]\n"
                               "S[i][t] = 0.5 * S[i][t-1] + x[t] }\n"};
  expect(only_reason(variances, cpu_machine(4)),
         "instructions: loops are kept over rows of at most 1024 elements, of which no `var`");
  expect(only_reason(cells[4], h200_machine()),
         "instructions: behind products, a GPU keeps no loops");
}

// ---- What the verifier says of loops ----

/// Of the first cell's plan after `damage` to its kernel with loops.
std::string complaint(const std::function<void(Kernel&)>& damage) {
  Plan plan = rerolled_plan(graph_of(array_cells()[0], 40), cpu_machine(4));
  for (Kernel& kernel : plan.kernels) {
    if (kernel.loops.empty()) continue;
    kernel.name = "k";
    damage(kernel);
    const Status status = verify(plan);
    return status ? "none" : status.error().message;
  }
  return "no loops";
}

uint32_t first_of(const Kernel& kernel, Instruction::Kind kind, uint32_t from = 0) {
  while (kernel.body[from].kind != kind) ++from;
  return from;
}

TEST(RerollVerify, NamesWhatIsWrong) {
  using Kind = Instruction::Kind;
  EXPECT_EQ(complaint([](Kernel&) {}), "none");
  EXPECT_TRUE(
      complaint([](Kernel& k) { k.loops[0].count = 1; }).starts_with("kernel k: a loop of 1"));
  const auto expect = [](const std::string& part, const std::function<void(Kernel&)>& damage) {
    const std::string text = complaint(damage);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect("runs 39 times, a", [](Kernel& k) { k.loops[0].count = 39; });
  expect("is no last value of a loop", [](Kernel& k) {
    const uint32_t last = first_of(k, Kind::Last);
    k.body[last].operands[0] = 0;
  });
  expect("from an iteration that does not make it", [](Kernel& k) {
    const uint32_t carried = first_of(k, Kind::Carried);
    k.body[carried].operands[1] = k.loops[1].begin + 1;
  });
  expect("which is no later value", [](Kernel& k) {
    const uint32_t carried = first_of(k, Kind::Carried);
    k.body[carried].operands[1] = carried - 1;
  });
  expect("which is in a loop", [](Kernel& k) {
    const uint32_t last = first_of(k, Kind::Last);
    const uint32_t user = first_of(k, Kind::Scalar, last);
    k.body[user].operands[0] = k.loops[0].begin + 1;
  });
  expect("is carried by no loop", [](Kernel& k) {
    const uint32_t last = first_of(k, Kind::Last);
    k.body[last].kind = Kind::Carried;
    k.body[last].operands = {0, last + 1};
  });
}

}  // namespace
}  // namespace rnnc::test
