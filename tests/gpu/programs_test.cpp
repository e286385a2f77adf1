// Whole programs on the GPU against the interpreter.
#include <gtest/gtest.h>

#include "ir/graph/text.h"
#include "passes/graph/delays.h"
#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

Result<Program> compile(const Graph& graph, DType dtype, int64_t chunk, bool allow_tf32 = false) {
  return Program::compile(graph, {.dtype = dtype,
                                  .device = {.kind = Device::Kind::cuda, .index = 0},
                                  .allow_tf32 = allow_tf32,
                                  .chunk = chunk});
}

/// Error of one call against the interpreter.
Result<double> error_of_run(Program& program, const Graph& graph, const InterpreterArgs& given,
                            bool misaligned = false, const Sequences& sequences = {}) {
  const InterpreterArgs args = rounded(given, program.options().dtype);
  const DeviceArguments arguments(program, args, misaligned, sequences);
  if (Status ran = program.forward(arguments.on(nullptr)); !ran) return tl::unexpected(ran.error());
  return error_of_results(arguments.results(),
                          interpret_sequences(graph, args, sequences.lengths, sequences.resets));
}

// Lengths below, at and beyond a chunk of 4 steps.
constexpr int64_t kLengths[] = {1, 3, 4, 5, 8, 11};

/// With delays as states of its own, which a program has too.
Graph explicit_random_graph(uint64_t seed, const RandomGraphOptions& options) {
  Graph graph = random_graph(seed, options);
  run_delays(graph);
  return graph;
}

void check_random_graph(uint64_t seed, DType dtype, double tolerance) {
  SCOPED_TRACE(fmt::format("seed {} in {}", seed, to_string(dtype)));
  const Graph graph = explicit_random_graph(seed, {.operations = 30, .largest_size = 40});
  auto program = compile(graph, dtype, 4);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  for (const int64_t batch : {1, 3}) {
    const Status prepared = program->prepare(batch, 11);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    for (const int64_t steps : kLengths) {
      const InterpreterArgs args = random_args(graph, steps, batch, seed, steps % 2 == 1);
      const Result<double> error = error_of_run(*program, graph, args);
      ASSERT_TRUE(error.has_value()) << error.error().message;
      EXPECT_LE(*error, tolerance) << steps << " steps, batch " << batch;
    }
  }
}

TEST(GpuPrograms, RandomGraphsInF32) {
  for (uint64_t seed = 0; seed < 40; ++seed) check_random_graph(seed, DType::f32, 2e-5);
}

TEST(GpuPrograms, RandomGraphsInBf16) {
  for (uint64_t seed = 40; seed < 50; ++seed) check_random_graph(seed, DType::bf16, 6e-2);
}

TEST(GpuPrograms, RandomGraphsInF16) {
  for (uint64_t seed = 50; seed < 60; ++seed) check_random_graph(seed, DType::f16, 2e-2);
}

// Of so many rows, a thread of an elementwise kernel has packets of 4 neighbours, 2 or 1, whether
// the caller's arrays are aligned to them or not.
TEST(GpuPrograms, ManyRowsOfPackets) {
  constexpr int64_t kRows = 520;
  constexpr int64_t kSteps = 3;
  for (const int64_t hidden : {256, 258, 255}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Graph graph = lstm_graph(16, hidden);
      auto program = Program::compile(graph, {.dtype = dtype,
                                              .device = {.kind = Device::Kind::cuda, .index = 0},
                                              .passes = PassSet::all().without(Pass::Resident)});
      ASSERT_TRUE(program.has_value()) << program.error().message;
      const Status prepared = program->prepare(kRows, kSteps);
      ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
      const InterpreterArgs args = arguments_for(graph, kSteps, kRows, true);
      for (const bool misaligned : {false, true}) {
        const Result<double> error = error_of_run(*program, graph, args, misaligned);
        ASSERT_TRUE(error.has_value()) << error.error().message;
        EXPECT_LE(*error, dtype == DType::f32 ? 2e-5 : 2e-2)
            << hidden << " in " << to_string(dtype) << (misaligned ? ", not aligned" : "");
      }
    }
  }
}

// Rows have no packets, and a thread has 2, 4 or 8 elements that lie apart.
TEST(GpuPrograms, ManyElementsWithoutPackets) {
  Graph graph = parse_graph(R"(graph Gate(H) {
  input x: [H]
  param a: [H]
  %0 = input x : [H]
  %1 = param a : [H]
  %2 = mul %0, %1 : [H]
  %3 = tanh %2 : [H]
  output y = %3
}
)")
                    .value();
  graph.bind({{"H", 333}});
  constexpr int64_t kBatch = 21;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t steps : {40, 80, 151}) {
      auto program = compile(graph, dtype, 0);
      ASSERT_TRUE(program.has_value()) << program.error().message;
      const Status prepared = program->prepare(kBatch, steps);
      ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
      const InterpreterArgs args = random_args(graph, steps, kBatch, 1);
      for (const bool misaligned : {false, true}) {
        const Result<double> error = error_of_run(*program, graph, args, misaligned);
        ASSERT_TRUE(error.has_value()) << error.error().message;
        EXPECT_LE(*error, dtype == DType::f32 ? 2e-5 : 2e-2) << steps;
      }
    }
  }
}

TEST(GpuPrograms, RandomGraphsOfManyRows) {
  constexpr int64_t kRows = 33000;
  constexpr int64_t kSteps = 2;
  for (uint64_t seed = 100; seed < 106; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph graph = explicit_random_graph(seed, {.operations = 20, .largest_size = 8});
    auto program = compile(graph, DType::f32, 0);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    const Status prepared = program->prepare(kRows, kSteps);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    const InterpreterArgs args = random_args(graph, kSteps, kRows, seed, true);
    const Result<double> error = error_of_run(*program, graph, args, seed % 2 == 1);
    ASSERT_TRUE(error.has_value()) << error.error().message;
    EXPECT_LE(*error, 2e-5);
  }
}

/// With every op, layers in reverse by turns, and lengths and resets by turns.
void check_random_sequences(uint64_t seed, DType dtype, double tolerance) {
  SCOPED_TRACE(fmt::format("seed {} in {}", seed, to_string(dtype)));
  const Graph graph = explicit_random_graph(
      seed, {.operations = 30, .largest_size = 24, .structure = true, .reversals = seed % 2 == 1});
  const SequenceFeatures features = {.lengths = seed % 4 > 1, .resets = seed % 8 > 3};
  const int64_t batch = seed % 3 == 0 ? 1 : 3;
  auto program = compile(graph, dtype, 4);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const Status prepared = program->prepare(batch, 11, features);
  ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
  for (const int64_t steps : kLengths) {
    const bool given = steps % 2 == 1;
    const Sequences sequences =
        random_sequences(steps, batch, features, given, static_cast<uint32_t>(seed));
    const InterpreterArgs args = random_args(graph, steps, batch, seed, given);
    const bool misaligned = steps == 11;
    const Result<double> error = error_of_run(*program, graph, args, misaligned, sequences);
    ASSERT_TRUE(error.has_value()) << error.error().message;
    EXPECT_LE(*error, tolerance) << steps << " steps, batch " << batch;
  }
}

TEST(GpuPrograms, RandomSequencesInF32) {
  for (uint64_t seed = 100; seed < 148; ++seed) check_random_sequences(seed, DType::f32, 2e-5);
}

TEST(GpuPrograms, RandomSequencesInBf16) {
  for (uint64_t seed = 200; seed < 224; ++seed) check_random_sequences(seed, DType::bf16, 3e-2);
}

TEST(GpuPrograms, RandomSequencesInF16) {
  for (uint64_t seed = 300; seed < 324; ++seed) check_random_sequences(seed, DType::f16, 5e-3);
}

struct LstmCase {
  int64_t input_size, hidden_size, batch;
};

class GpuLstm : public testing::TestWithParam<LstmCase> {
 protected:
  void check(DType dtype, bool allow_tf32, bool misaligned, double tolerance) {
    const auto [input_size, hidden_size, batch] = GetParam();
    const Graph graph = lstm_graph(input_size, hidden_size);
    auto program = compile(graph, dtype, 8, allow_tf32);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    const Status prepared = program->prepare(batch, 21);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    const InterpreterArgs args = arguments_for(graph, 21, batch, true);
    const Result<double> error = error_of_run(*program, graph, args, misaligned);
    ASSERT_TRUE(error.has_value()) << error.error().message;
    EXPECT_LE(*error, tolerance);
  }
};

TEST_P(GpuLstm, F32) {
  check(DType::f32, false, false, 2e-5);
}
TEST_P(GpuLstm, Tf32) {
  check(DType::f32, true, false, 1e-2);
}
TEST_P(GpuLstm, Bf16) {
  check(DType::bf16, false, false, 2e-2);
}
TEST_P(GpuLstm, F16) {
  check(DType::f16, false, false, 5e-3);
}
TEST_P(GpuLstm, F32AtOddAddresses) {
  check(DType::f32, false, true, 2e-5);
}
TEST_P(GpuLstm, Bf16AtOddAddresses) {
  check(DType::bf16, false, true, 2e-2);
}

INSTANTIATE_TEST_SUITE_P(Sizes, GpuLstm,
                         testing::Values(LstmCase{1, 1, 1}, LstmCase{3, 7, 5}, LstmCase{64, 64, 1},
                                         LstmCase{80, 256, 16}, LstmCase{129, 131, 17}),
                         [](const auto& test) {
                           return fmt::format("I{}_H{}_B{}", test.param.input_size,
                                              test.param.hidden_size, test.param.batch);
                         });

}  // namespace
}  // namespace rnnc::test
