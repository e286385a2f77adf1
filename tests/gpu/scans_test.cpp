// Scans against the interpreter: odd sizes, lengths, resets, initial states, several rounds, states
// that need each other; numbers that are not finite, and such as do not fit in composed maps.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <limits>

#include "ir/plan/plan.h"
#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"
#include "tests/support/cells/loop_cells.h"
#include "tests/support/cells/sequence_cases.h"

namespace rnnc::test {
namespace {

CompileOptions options_of(DType dtype, int64_t chunk = 0) {
  return {.dtype = dtype,
          .device = {.kind = Device::Kind::cuda, .index = 0},
          .cache_directory = std::filesystem::path(testing::TempDir()) / "rnnc-gpu-scans",
          .chunk = chunk,
          .passes = PassSet::all(),
          .strategy = Strategy::Scan};
}

class GpuScans : public testing::TestWithParam<const char*> {};

TEST_P(GpuScans, OfOddSizesAndLengths) {
  for (const auto& [size, batch, steps, chunk] : {std::array<int64_t, 4>{1, 1, 1, 0},
                                                  {7, 3, 33, 0},
                                                  {33, 1, 300, 0},
                                                  {6, 5, 300, 130},
                                                  {2, 1, 1000, 0},
                                                  {32, 2, 530, 0},
                                                  {66, 1, 7, 3}}) {
    SCOPED_TRACE(fmt::format("H {}, B {}, T {}, chunk {}", size, batch, steps, chunk));
    const Graph graph = loop_cell(GetParam(), size);
    for (const SequenceFeatures features :
         {SequenceFeatures{}, SequenceFeatures{.lengths = true, .resets = true}}) {
      check_run(graph, options_of(DType::f32, chunk),
                random_sequences(steps, batch, features, true, 1), 3e-5);
    }
  }
}

TEST_P(GpuScans, InBf16) {
  check_run(loop_cell(GetParam(), 6), options_of(DType::bf16), random_sequences(77, 3, {}, true, 1),
            3e-2);
}

INSTANTIATE_TEST_SUITE_P(Cells, GpuScans,
                         testing::Values("Gate", "Rotation", "Cascade", "Late", "Running", "Sums"),
                         [](const auto& name) { return name.param; });

/// Two steps of a thread.
TEST(GpuScanSteps, AreFewWhereTheyAreLong) {
  for (const int64_t size : {33, 64}) {
    check_run(loop_cell("Deep", size), options_of(DType::f32, 130),
              random_sequences(300, 2, {.lengths = true}, true, 1), 3e-5);
  }
}

/// What the program leaves of these numbers, and that it scans.
std::vector<std::vector<std::byte>> run(const Graph& graph, Strategy strategy,
                                        const InterpreterArgs& args, InterpreterResult* result) {
  CompileOptions options = options_of(DType::f32);
  options.strategy = strategy;
  Result<Program> program = Program::compile(graph, options);
  RNNC_CHECK(program.has_value(), "{}", program.error().message);
  const Status prepared = program->prepare(args.batch, args.steps);
  RNNC_CHECK(prepared.has_value(), "{}", prepared.error().message);
  int scans = 0;
  for (const Stage& stage : program->prepared(args.batch, args.steps)->plan->stages) {
    for (const Launch& launch : stage.launches) {
      scans += std::holds_alternative<ScanLaunch>(launch) ? 1 : 0;
    }
  }
  EXPECT_EQ(scans > 0, strategy == Strategy::Scan);
  const DeviceArguments arguments(*program, args);
  const Status ran = program->forward(arguments.on(nullptr));
  RNNC_CHECK(ran.has_value(), "{}", ran.error().message);
  if (result != nullptr) *result = arguments.results();
  return arguments.result_bits();
}

bool alike(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= 1e-4 * (std::abs(a) + std::abs(b)) + 1e-30;
}

/// The same as the loop, NaN and infinities too.
void expect_as_loop(const Graph& graph, const InterpreterArgs& args) {
  InterpreterResult scan, loop;
  const auto bits = run(graph, Strategy::Scan, args, &scan);
  run(graph, Strategy::Loop, args, &loop);
  for (size_t output = 0; output < loop.outputs.size(); ++output) {
    for (size_t i = 0; i < loop.outputs[output].size(); ++i) {
      ASSERT_TRUE(alike(scan.outputs[output][i], loop.outputs[output][i]))
          << i << ": " << scan.outputs[output][i] << " not " << loop.outputs[output][i];
    }
  }
  EXPECT_EQ(run(graph, Strategy::Scan, args, nullptr), bits);  // from run to run
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(GpuScanNumbers, AreThoseOfTheLoop) {
  const Graph graph = loop_cell("Free", 5);
  const int64_t steps = 2600;
  const int64_t width = 5;
  const InterpreterArgs plain = arguments_for(graph, steps, 1, true);
  const auto with = [&](const auto& change) {
    InterpreterArgs args = plain;
    change(args.inputs[0], args.inputs[1]);
    expect_as_loop(graph, args);
  };
  with([](auto&, auto&) {});
  // Far above 1 and back, so that products overflow where states do not, and where they do.
  with([&](auto& p, auto& n) {
    for (int64_t t = 100; t < 300; ++t) {
      p[static_cast<size_t>(t * width)] = t < 200 ? 4 : 0.25;
      p[static_cast<size_t>(t * width + 1)] = t < 150 ? 8 : 1;
      n[static_cast<size_t>(t * width)] = 0;
    }
  });
  with([&](auto& p, auto&) { p[static_cast<size_t>(1321 * width)] = kInfinity; });
  with([&](auto&, auto& n) { n[static_cast<size_t>(321 * width + 2)] = -kInfinity; });
  with([&](auto&, auto& n) { n[static_cast<size_t>(5 * width + 3)] = std::nan(""); });
  with([&](auto& p, auto&) {
    for (int64_t t = 0; t < steps; t += 3)
      p[static_cast<size_t>(t * width + 4)] = t % 2 == 0 ? 0 : -1e-41;
  });
  InterpreterArgs begun = plain;
  begun.initial_states[0] = {0, kInfinity, std::nan(""), 1e30, 1};
  expect_as_loop(graph, begun);
}

/// Of running maxima and minima: numbers that stand for none, and such as come near them.
TEST(GpuScanNumbers, AreThoseOfTheLoopInMaximaAndMinima) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const Graph graph = loop_cell("Running", 5);
  const int64_t steps = 1100;
  const int64_t width = 5;
  const InterpreterArgs plain = arguments_for(graph, steps, 1, true);
  for (const double special : {kInfinity, kLargest, 1e34, std::nan("")}) {
    for (const double sign : {-1.0, 1.0}) {
      SCOPED_TRACE(sign * special);
      InterpreterArgs args = plain;
      for (auto& input : args.inputs) {
        input[static_cast<size_t>(400 * width)] = sign * special;
        for (int64_t t = 0; t < 700; ++t) {
          if (t > 300) input[static_cast<size_t>(t * width + 1)] = sign * special;
          if (t % 3 == 0) input[static_cast<size_t>(t * width + 2)] = sign * special;
          input[static_cast<size_t>(t * width + 3)] = sign * special;
        }
      }
      for (auto& state : args.initial_states) state[4] = sign * special;
      expect_as_loop(graph, args);
    }
  }
}

/// Threads with two channels each, and more tiles than a group has: maps that do not count in the
/// first group and behind it, in one channel of a thread and in both.
TEST(GpuScanNumbers, AreThoseOfTheLoopAcrossGroups) {
  const int64_t steps = 4800;
  const int64_t width = 66;
  const Graph graph = loop_cell("Free", width);
  InterpreterArgs args = arguments_for(graph, steps, 1, true);
  auto& p = args.inputs[0];
  auto& n = args.inputs[1];
  for (int64_t t = 600; t < 800; ++t) p[static_cast<size_t>(t * width + 2)] = t < 700 ? 4 : 0.25;
  for (int64_t t = 4200; t < 4300; ++t) p[static_cast<size_t>(t * width + 7)] = 8;
  p[static_cast<size_t>(1321 * width + 10)] = kInfinity;
  p[static_cast<size_t>(1321 * width + 11)] = kInfinity;
  n[static_cast<size_t>(4400 * width + 13)] = -kInfinity;
  n[static_cast<size_t>(4500 * width + 64)] = std::nan("");
  expect_as_loop(graph, args);
}

}  // namespace
}  // namespace rnnc::test
