// Cells that are linear in disguise, and cells that look linear and are not: what class they are
// of, and what is said of why; forward and backward halves, as scans where they are linear, against
// the interpreter.
#include <gtest/gtest.h>

#include <algorithm>

#include "frontend/unit.h"
#include "passes/build_plan.h"
#include "passes/graph/delays.h"
#include "tests/support/gradients/half_check.h"

namespace rnnc::test {
namespace {

struct Disguise {
  const char* name;
  const char* states;
  const char* equations;
  RecurrenceClass is;
  const char* why;  // part of the reason
  friend void PrintTo(const Disguise& one, std::ostream* out) { *out << one.name; }
};

constexpr auto kLinear = RecurrenceClass::Linear;
constexpr auto kNot = RecurrenceClass::Elementwise;

constexpr Disguise kDisguises[] = {
    {"Lerp", "state h: [H]", "h[t] = h[t-1] + sigmoid(p[t]) * (n[t] - h[t-1])", kLinear, "h = "},
    {"Quotient", "state h: [H]", "h[t] = (h[t-1] + n[t]) / (1.5 + exp(p[t]))", kLinear, "h = "},
    {"Minus", "state h: [H]", "h[t] = -(0.5 * -h[t-1] - n[t]) - p[t]", kLinear, "h = "},
    {"Rest", "state h: [H]", "h[t] = n[t] - (n[t] - h[t-1]) * cos(p[t]) * 0.8", kLinear, "h = "},
    {"Choice", "state h: [H]", "h[t] = where(p[t] > 0, 0.5 * h[t-1], n[t] - 0.3 * h[t-1])", kLinear,
     "h = where("},
    {"Sums", "state h: [H]", "h[t] = h[t-1] + h[t-1] - 1.5 * h[t-1] + n[t]", kLinear, "h = "},
    {"Momentum", "state v, h: [H]",
     "v[t] = 0.7 * v[t-1] + n[t]\n  h[t] = 0.9 * h[t-1] + sigmoid(p[t]) * v[t]", kLinear, "; h = "},
    {"Poles", "state h: [H]", "h[t] = 2 * 0.4 * cos(p[t]) * h[t-1] - 0.16 * h[t-2] + n[t]", kLinear,
     "h = "},
    {"Swap", "state a, b: [H]", "a[t] = b[t-1] + n[t]\n  b[t] = 0.6 * a[t-1]\n  h = a[t]", kLinear,
     "a = "},
    {"GateOfAState", "state s, h: [H]",
     "s[t] = 0.9 * s[t-1] + p[t]\n  h[t] = sigmoid(s[t-1] * s[t]) * h[t-1] + n[t]", kLinear,
     "; h = "},
    {"LogOfDecay", "state h: [H]",
     "h[t] = exp(log(sigmoid(p[t]))) * h[t-1] + n[t] / (1 + abs(n[t]))", kLinear, "h = "},
    {"Unrolled", "state g: [H]",
     "g[t] = (g[t-1] + p[t]) * (0.5 - 0.1 * sin(n[t])) + n[t]\n"
     "  h = tanh(g[t]) * p[t]",
     kLinear, "g = "},
    {"Least", "state h: [H]", "h[t] = min(h[t-1] + exp(p[t]), n[t])", kLinear, "h = min("},
    {"Weighted", "state m, a, b: [H]",
     "m[t] = max(m[t-1] - 0.1, p[t])\n  kept = exp(m[t-1] - 0.1 - m[t])\n"
     "  added = exp(p[t] - m[t])\n  a[t] = kept * a[t-1] + added * n[t]\n"
     "  b[t] = kept * b[t-1] + added\n  h = a[t] / (1 + b[t] * b[t])",
     kLinear, "m = max("},

    {"Square", "state h: [H]", "h[t] = 0.1 * h[t-1] * (1 - h[t-1]) + n[t]", kNot,
     "mul of two of its own values"},
    {"Share", "state h: [H]", "h[t] = n[t] / (2 + h[t-1] * h[t-1])", kNot, "makes it nonlinear"},
    {"OwnChoice", "state h: [H]", "h[t] = where(h[t-1] > 0, 0.5 * h[t-1], n[t])", kNot,
     "makes it nonlinear"},
    {"Scaled", "state h: [H]", "h[t] = max(0.5 * h[t-1], n[t])", kNot, "max makes it nonlinear"},
    {"Circle", "state a, b: [H]",
     "a[t] = sigmoid(b[t-1]) * a[t-1] + n[t]\n  b[t] = 0.5 * a[t-1] + p[t]\n  h = b[t]", kNot,
     "makes it nonlinear"},
    {"Size", "state h: [H]", "h[t] = abs(0.5 * h[t-1] + p[t]) - n[t]", kNot,
     "abs makes it nonlinear"},
};

Graph graph_of(const Disguise& one, int64_t size) {
  Unit unit("disguised.rnn", fmt::format("cell {}[H](p: [H], n: [H]) -> h {{\n  {}\n  {}\n}}\n",
                                         one.name, one.states, one.equations));
  std::optional<Graph> graph = unit.lower(one.name, {{"H", size}});
  RNNC_CHECK(graph.has_value(), "{}", unit.render());
  graph->bind({{"H", size}});
  run_delays(*graph);
  return *std::move(graph);
}

class Disguises : public testing::TestWithParam<Disguise> {};

TEST_P(Disguises, AreSeenThrough) {
  const Disguise& one = GetParam();
  for (const Machine& machine : {h200_machine(), cpu_machine(2)}) {
    const Result<Plan> plan = build_plan(graph_of(one, 5), {.max_steps = 64, .machine = machine});
    ASSERT_TRUE(plan) << plan.error().message;
    const auto stage = std::ranges::find_if(
        plan->stages, [](const Stage& s) { return s.recurrence != RecurrenceClass::None; });
    ASSERT_NE(stage, plan->stages.end());
    EXPECT_EQ(stage->recurrence, one.is) << stage->reason;
    EXPECT_NE(stage->reason.find(one.why), std::string::npos) << stage->reason;
  }
}

TEST_P(Disguises, ComputeWhatTheInterpreterDoes) {
  const Disguise& one = GetParam();
  const auto run = [](const Plan& plan, const InterpreterArgs& args, const SequenceArgs& ends) {
    return Result<InterpreterResult>(execute_plan(plan, args, ends));
  };
  for (const uint64_t seed : {1, 2, 3}) {
    for (const Machine& machine : {h200_machine(), cpu_machine(2)}) {
      SCOPED_TRACE(fmt::format("seed {}", seed));
      check_halves(graph_of(one, 3),
                   {.steps = 21,
                    .chunk = seed == 2 ? 8 : 0,
                    .seed = seed,
                    .dtype = machine.kind == Machine::Kind::Cpu ? DType::f64 : DType::f32,
                    .lengths = seed == 3,
                    .resets = seed == 3,
                    .given_states = seed == 1,
                    .machine = machine,
                    .strategy = one.is == kLinear ? Strategy::Scan : Strategy::Any},
                   run);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Disguises, testing::ValuesIn(kDisguises),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace rnnc::test
