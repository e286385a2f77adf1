// How many launches begin and end states of many steps.
#include <gtest/gtest.h>

#include "frontend/unit.h"
#include "runtime/backend/backend.h"
#include "tests/emulator/emulator.h"
#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"
#include "tests/support/cells/networks.h"

namespace rnnc::test {
namespace {

constexpr const char* kFar =
    "cell Far[H, D](x: [H]) -> h {\n  state h: [H]\n  h[t] = 0.5 * h[t-D] + x[t]\n}\n";
constexpr const char* kGate =
    "cell Gate[H, D](x: [H]) -> h {\n  state h: [H]\n  state c: [H]\n  param R: [H, H]\n"
    "  c[t] = 0.5 * c[t-D] + tanh(x[t])\n  h[t] = tanh(R @ h[t-D] + c[t])\n}\n";

Graph lower(const char* text, const char* name, int64_t hidden, int64_t delay) {
  Unit unit("far.rnn", text);
  std::optional<Graph> graph = unit.lower(name, {{"H", hidden}, {"D", delay}});
  RNNC_CHECK(graph.has_value(), "{}", unit.render());
  graph->bind({{"H", hidden}, {"D", delay}});
  return *std::move(graph);
}

Graph gate(int64_t delay) {
  return lower(kGate, "Gate", 16, delay);
}

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 2e-5) << i;
}

/// What a state that began at zero hands on of `delay` - 1 steps, the earliest first, at the end of
/// so many of `values`, [steps, batch, hidden].
std::vector<double> history_of(const std::vector<double>& values, int64_t steps, int64_t batch,
                               int64_t delay) {
  const auto hidden = static_cast<int64_t>(values.size()) / (steps * batch);
  std::vector<double> history;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t step = steps - delay; step < steps - 1; ++step) {
      for (int64_t h = 0; h < hidden; ++h) {
        const size_t at = static_cast<size_t>((step * batch + b) * hidden + h);
        history.push_back(step < 0 ? 0 : values[at]);
      }
    }
  }
  return history;
}

/// A first call, whose outputs are those of the interpreter.
struct FirstCall {
  int64_t launches = 0;
  InterpreterResult result;
};

FirstCall call(const Graph& graph, int64_t steps) {
  Program program =
      Program::compile(graph, {.device = {.kind = Device::Kind::cuda, .index = 0}}).value();
  EXPECT_TRUE(program.prepare(2, steps));
  const InterpreterArgs args = rounded(arguments_for(graph, steps, 2, false), DType::f32);
  const DeviceArguments arguments(program, args);
  emulator::take_launches();
  EXPECT_TRUE(program.forward(arguments.on(nullptr)));
  FirstCall first{.launches = emulator::take_launches(), .result = {}};
  EXPECT_TRUE(program.backend().synchronize(nullptr));
  first.result = arguments.results();
  expect_near(first.result.outputs[0], interpret(graph, args).outputs[0]);
  return first;
}

TEST(EmulatedHistories, BeginAndEndInAsManyLaunchesAsShortOnes) {
  const int64_t few = call(gate(10), 4).launches;
  EXPECT_EQ(call(gate(11), 33).launches, few);
  EXPECT_EQ(call(gate(200), 33).launches, few);
}

TEST(EmulatedHistories, OfMoreStepsThanALaunchHasBlocks) {
  const auto hands_on = [](int64_t hidden, int64_t delay, int64_t steps) {
    const InterpreterResult result = call(lower(kFar, "Far", hidden, delay), steps).result;
    ASSERT_EQ(result.final_states.size(), 2u);
    expect_near(result.final_states[1], history_of(result.outputs[0], steps, 2, delay));
  };
  hands_on(70000, 10, 3);  // a step has 1094 blocks
  hands_on(1000, 300, 7);
}

}  // namespace
}  // namespace rnnc::test
