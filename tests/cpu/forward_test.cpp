// Whole graphs through the CPU backend, against the interpreter.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "frontend/unit.h"
#include "runtime/backend/kernel_cache.h"
#include "tests/cpu/program_run.h"
#include "tests/support/cells/random_graph.h"

namespace rnnc::test {
namespace {

double tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-12 : 2e-5;
}

void check(const Graph& graph, const CompileOptions& options, int64_t steps, int64_t batch,
           uint64_t seed, bool with_initial_states = false) {
  SCOPED_TRACE(fmt::format("{}: seed {}, {}, threads {}, chunk {}, T {}, B {}", graph.name, seed,
                           to_string(options.dtype), options.threads, options.chunk, steps, batch));
  const InterpreterArgs args = random_args(graph, steps, batch, seed, with_initial_states);
  CpuProgram program(graph, options, batch, steps);
  EXPECT_LE(worst_error(program.run(args), interpret(graph, args)), tolerance(options.dtype));
}

TEST(Forward, RandomGraphs) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = with_states(random_graph(seed));
    CompileOptions options;
    options.dtype = seed % 2 == 0 ? DType::f64 : DType::f32;
    options.threads = 1 + static_cast<int>(seed / 2 % 2);
    options.chunk = 1 + static_cast<int64_t>(seed % 5);
    check(graph, options, 1 + static_cast<int64_t>(seed % 9), 1 + static_cast<int64_t>(seed % 3),
          seed, seed % 4 == 0);
  }
}

// LLVM 19 could not select instructions for this one on AVX-512: choices made twice by one
// comparison, for a value per row.
TEST(Forward, NestedChoicesPerRow) {
  Unit unit("choices.rnn", R"(cell Choices[I](x: [I], s: []) -> h {
  state h: []
  param p: [I]
  param q: []
  inner = where(s[t] != 0.3, 0.5, dot(p, x[t]) + h[t-1])
  h[t] = clamp(max(0, where(s[t] != 0.3, inner, q)), -1, 1)
})");
  std::optional<Graph> graph = unit.lower("Choices", {});
  ASSERT_TRUE(graph.has_value()) << unit.render();
  graph->bind({{"I", 4}});
  for (const DType dtype : {DType::f32, DType::f64}) {
    CompileOptions options;
    options.dtype = dtype;
    check(with_states(*graph), options, 5, 3, 1, true);
  }
}

TEST(Forward, RandomGraphsOfOddSizes) {
  for (uint64_t seed = 100; seed < 110; ++seed) {
    const Graph graph = with_states(random_graph(seed, {.operations = 40, .largest_size = 70}));
    CompileOptions options;
    options.dtype = seed % 2 == 0 ? DType::f64 : DType::f32;
    options.threads = 2;
    check(graph, options, 5, 3, seed);
  }
}

struct Cell {
  const char* file;
  const char* name;
};

TEST(Forward, ShippedCellsAtOddSizes) {
  constexpr Cell kCells[] = {{"lstm.rnn", "LSTM"},
                             {"gru_reset_before.rnn", "GRUResetBefore"},
                             {"layernorm_lstm.rnn", "LayerNormLSTM"},
                             {"indrnn.rnn", "IndRNN"}};
  for (const Cell& cell : kCells) {
    for (const int64_t hidden : {1, 7, 65}) {
      const Graph graph = example_graph(cell.file, cell.name, {{"I", 5}, {"H", hidden}});
      for (const DType dtype : {DType::f32, DType::f64}) {
        for (const int threads : {1, 2}) {
          CompileOptions options;
          options.dtype = dtype;
          options.threads = threads;
          options.chunk = 4;
          check(graph, options, 11, 3, 1, threads == 2);
        }
      }
    }
  }
}

TEST(Forward, BitsDoNotDependOnThreadsOrOnPieces) {
  // Large enough that every launch is shared out.
  const Graph graph = example_graph("lstm.rnn", "LSTM", {{"I", 70}, {"H", 130}});
  const InterpreterArgs args = random_args(graph, 13, 16, 3, true);
  CompileOptions options;
  options.threads = 1;
  options.chunk = 8;
  const InterpreterResult one = CpuProgram(graph, options, 16, 13).run(args);
  EXPECT_LE(worst_error(one, interpret(graph, args)), tolerance(DType::f32));
  for (const int threads : {2, 3, 5}) {
    options.threads = threads;
    CpuProgram program(graph, options, 16, 13);
    for (int repeat = 0; repeat < 3; ++repeat) {
      const InterpreterResult more = program.run(args, repeat > 0);
      EXPECT_EQ(one.outputs, more.outputs) << threads << " threads, repeat " << repeat;
      EXPECT_EQ(one.final_states, more.final_states);
    }
  }
  options.chunk = 3;
  EXPECT_EQ(one.outputs, CpuProgram(graph, options, 16, 13).run(args).outputs);
}

TEST(Forward, NewParamsAreUsedUnlessReuseIsPromised) {
  const Graph graph = example_graph("lstm.rnn", "LSTM", {{"I", 3}, {"H", 5}});
  InterpreterArgs args = random_args(graph, 4, 2, 1);
  CompileOptions options;
  options.dtype = DType::f64;
  CpuProgram program(graph, options, 2, 4);
  program.run(args);
  for (auto& param : args.params) {
    for (double& value : param) value = -value / 2;
  }
  EXPECT_LE(worst_error(program.run(args), interpret(graph, args)), 1e-12);
  EXPECT_LE(worst_error(program.run(args, true), interpret(graph, args)), 1e-12);
}

TEST(Forward, NanAndInfinityFlowThrough) {
  const Graph graph = example_graph("lstm.rnn", "LSTM", {{"I", 3}, {"H", 5}});
  InterpreterArgs args = random_args(graph, 6, 3, 1);
  args.inputs[0][4] = std::numeric_limits<double>::quiet_NaN();
  args.inputs[0][3 * 3 * 3 + 7] = -std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::f32, DType::f64}) {
    CompileOptions options;
    options.dtype = dtype;
    CpuProgram program(graph, options, 3, 6);
    EXPECT_LE(worst_error(program.run(args), interpret(graph, args)), tolerance(dtype));
  }
}

TEST(Forward, AllocatesNothing) {
  const Graph graph = example_graph("lstm.rnn", "LSTM", {{"I", 70}, {"H", 130}});
  const InterpreterArgs args = random_args(graph, 9, 16, 3, true);
  CompileOptions options;
  options.threads = 2;
  options.chunk = 4;
  CpuProgram program(graph, options, 16, 9);
  program.run(args);
  EXPECT_EQ(program.allocations_in_last_run(), 0);
}

TEST(Forward, KernelsComeBackFromTheCache) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "rnnc_cpu_cache_test";
  std::filesystem::remove_all(folder);
  const Graph graph = example_graph("lstm.rnn", "LSTM", {{"I", 3}, {"H", 20}});
  const InterpreterArgs args = random_args(graph, 4, 2, 1);
  CompileOptions options;
  options.cache_directory = folder;
  const InterpreterResult first = CpuProgram(graph, options, 2, 4).run(args);
  const KernelCache cache(folder);
  EXPECT_EQ(cache.usage()->entries, 1);
  EXPECT_EQ(CpuProgram(graph, options, 2, 4).run(args).outputs, first.outputs);
  EXPECT_EQ(cache.usage()->entries, 1);

  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
    file << "damage";
  }
  EXPECT_EQ(CpuProgram(graph, options, 2, 4).run(args).outputs, first.outputs);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace rnnc::test
