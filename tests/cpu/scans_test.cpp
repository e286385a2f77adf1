// Scans against the interpreter: odd sizes, lengths, resets, initial states, chunks, several rounds,
// states that need each other; numbers that are not finite, and such as do not fit in composed maps.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tests/cpu/program_run.h"
#include "tests/support/cells/loop_cells.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

CompileOptions options_of(DType dtype, int threads, int64_t chunk = 0) {
  return {.dtype = dtype, .threads = threads, .chunk = chunk, .strategy = Strategy::Scan};
}

class CpuScans : public testing::TestWithParam<const char*> {};

TEST_P(CpuScans, OfOddSizesAndLengths) {
  for (const auto& [size, batch, steps, chunk] : {std::array<int64_t, 4>{1, 1, 1, 0},
                                                  {7, 3, 33, 0},
                                                  {1, 1, 5000, 0},
                                                  {6, 3, 2700, 1300},
                                                  {300, 1, 300, 0},
                                                  {66, 2, 1030, 0}}) {
    const Graph graph = loop_cell(GetParam(), size);
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const bool sequences : {false, true}) {
        SCOPED_TRACE(fmt::format("H {}, B {}, T {}, chunk {} in {}{}", size, batch, steps, chunk,
                                 to_string(dtype), sequences ? ", sequences" : ""));
        CpuProgram program(graph, options_of(dtype, 3, chunk), batch, steps,
                           {.lengths = sequences, .resets = sequences});
        const InterpreterArgs args = random_args(graph, steps, batch, 1, true);
        CallSequences call;
        for (int32_t b = 0; sequences && b < batch; ++b) {
          call.lengths.push_back(static_cast<int32_t>(steps) - 3 * b);
        }
        for (int64_t i = 0; sequences && i < batch * steps; ++i) {
          call.resets.push_back(i % 1009 == 700 ? 1 : 0);
        }
        const InterpreterResult expected =
            interpret_sequences(graph, args, {call.lengths.begin(), call.lengths.end()},
                                {call.resets.begin(), call.resets.end()});
        EXPECT_LE(worst_error(program.run(args, false, call), expected),
                  dtype == DType::f32 ? 3e-5 : 1e-12);
        EXPECT_EQ(program.allocations_in_last_run(), 0);
      }
    }
  }
}

TEST_P(CpuScans, HaveTheSameBitsOnAnyNumberOfThreads) {
  const Graph graph = loop_cell(GetParam(), 5);
  const InterpreterArgs args = random_args(graph, 9000, 2, 1, true);
  CpuProgram alone(graph, options_of(DType::f32, 1), 2, 9000);
  const InterpreterResult wanted = alone.run(args);
  for (const int threads : {2, 3, 8}) {
    CpuProgram program(graph, options_of(DType::f32, threads), 2, 9000);
    for (int time = 0; time < 3; ++time) {
      const InterpreterResult got = program.run(args);
      EXPECT_EQ(got.outputs, wanted.outputs) << threads;
      EXPECT_EQ(got.final_states, wanted.final_states) << threads;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, CpuScans,
                         testing::Values("Gate", "Rotation", "Cascade", "Late", "Running"),
                         [](const auto& name) { return name.param; });

bool alike(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= 1e-4 * (std::abs(a) + std::abs(b)) + 1e-30;
}

/// The same as the loop, NaN and infinities too.
void expect_as_loop(const Graph& graph, const InterpreterArgs& args) {
  CompileOptions options = options_of(DType::f32, 2);
  const InterpreterResult scan = CpuProgram(graph, options, 1, args.steps).run(args);
  options.strategy = Strategy::Loop;
  const InterpreterResult loop = CpuProgram(graph, options, 1, args.steps).run(args);
  for (size_t output = 0; output < loop.outputs.size(); ++output) {
    for (size_t i = 0; i < loop.outputs[output].size(); ++i) {
      ASSERT_TRUE(alike(scan.outputs[output][i], loop.outputs[output][i]))
          << i << ": " << scan.outputs[output][i] << " not " << loop.outputs[output][i];
    }
  }
  ASSERT_TRUE(std::ranges::equal(scan.final_states[0], loop.final_states[0], alike));
}

TEST(CpuScanNumbers, AreThoseOfTheLoop) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Graph graph = loop_cell("Free", 5);
  const int64_t steps = 5200;
  const int64_t width = 5;
  InterpreterArgs plain = random_args(graph, steps, 1, 1, true);
  for (double& p : plain.inputs[0]) p = 0.9 * std::tanh(p);
  const auto with = [&](const auto& change) {
    InterpreterArgs args = plain;
    change(args.inputs[0], args.inputs[1]);
    expect_as_loop(graph, args);
  };
  const auto at = [](int64_t step, int64_t element) {
    return static_cast<size_t>(step * width + element);
  };
  with([](auto&, auto&) {});
  // Far above 1 and back, so that products overflow where states do not, and where they do.
  with([&](auto& p, auto& n) {
    for (int64_t t = 100; t < 300; ++t) {
      p[at(t, 0)] = t < 200 ? 4 : 0.25;
      p[at(t, 1)] = t < 150 ? 8 : 1;
      n[at(t, 0)] = 0;
    }
  });
  with([&](auto& p, auto&) {
    p[at(1500, 2)] = 1e30;
    p[at(1501, 2)] = 1e30;
    p[at(1502, 2)] = 1e-30;
    p[at(1503, 2)] = 1e-30;
  });
  with([&](auto& p, auto&) { p[at(1321, 0)] = kInfinity; });
  with([&](auto&, auto& n) { n[at(321, 2)] = -kInfinity; });
  with([&](auto&, auto& n) { n[at(5, 3)] = std::nan(""); });
  with([&](auto& p, auto&) {
    for (int64_t t = 0; t < steps; t += 3) p[at(t, 4)] = t % 2 == 0 ? 0 : -1e-41;
  });
  InterpreterArgs begun = plain;
  begun.initial_states[0] = {0, kInfinity, std::nan(""), 1e30, 1};
  expect_as_loop(graph, begun);
}

std::string error_of(const Graph& graph, Strategy strategy) {
  Result<Program> program = Program::compile(graph, {.strategy = strategy});
  if (!program) return program.error().message;
  const Status prepared = program->prepare(1, 8);
  return prepared ? "none" : prepared.error().message;
}

TEST(CpuScanErrors, NameWhatIsInTheWay) {
  EXPECT_EQ(error_of(loop_cell("Gate", 3), Strategy::Scan), "none");
  EXPECT_EQ(error_of(loop_cell("Bent", 3), Strategy::Loop), "none");
  EXPECT_EQ(error_of(loop_cell("Bent", 3), Strategy::Scan),
            "`Bent` at batch 1 cannot run with strategy `scan`: h: tanh makes it nonlinear (leave "
            "the strategy out, and rnnc finds a way)");
}

}  // namespace
}  // namespace rnnc::test
