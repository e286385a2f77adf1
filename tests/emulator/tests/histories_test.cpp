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

constexpr const char* kGate =
    "cell Gate[H, D](x: [H]) -> h {\n  state h: [H]\n  state c: [H]\n  param R: [H, H]\n"
    "  c[t] = 0.5 * c[t-D] + tanh(x[t])\n  h[t] = tanh(R @ h[t-D] + c[t])\n}\n";

Graph gate(int64_t delay) {
  Unit unit("gate.rnn", kGate);
  std::optional<Graph> graph = unit.lower("Gate", {{"H", 16}, {"D", delay}});
  RNNC_CHECK(graph.has_value(), "{}", unit.render());
  graph->bind({{"H", 16}, {"D", delay}});
  return *std::move(graph);
}

/// Of a first call, whose outputs are those of the interpreter.
int64_t launches(const Graph& graph, int64_t steps) {
  Program program =
      Program::compile(graph, {.device = {.kind = Device::Kind::cuda, .index = 0}}).value();
  EXPECT_TRUE(program.prepare(2, steps));
  const InterpreterArgs args = rounded(arguments_for(graph, steps, 2, false), DType::f32);
  const DeviceArguments arguments(program, args);
  emulator::take_launches();
  EXPECT_TRUE(program.forward(arguments.on(nullptr)));
  const int64_t count = emulator::take_launches();
  EXPECT_TRUE(program.backend().synchronize(nullptr));
  const std::vector<double> expected = interpret(graph, args).outputs[0];
  const std::vector<double> actual = arguments.results().outputs[0];
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 2e-5);
  return count;
}

TEST(EmulatedHistories, BeginAndEndInAsManyLaunchesAsShortOnes) {
  const int64_t few = launches(gate(10), 4);
  EXPECT_EQ(launches(gate(11), 33), few);
  EXPECT_EQ(launches(gate(200), 33), few);
}

}  // namespace
}  // namespace rnnc::test
