// Recurrences with resident weights: all passes, that of resident weights among them, against
// goldens and the interpreter.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "ir/plan/recurrence_kernel.h"
#include "passes/build_plan.h"
#include "runtime/backend/backend.h"
#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/cells/sequence_cases.h"
#include "tests/support/cells/sequence_graphs.h"
#include "tests/support/reference/nonfinite.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

/// Kernels are kept for the whole program: those of many shapes are the same.
CompileOptions resident(DType dtype, int64_t chunk = 0) {
  return {.dtype = dtype,
          .device = {.kind = Device::Kind::cuda, .index = 0},
          .cache_directory = std::filesystem::path(testing::TempDir()) / "rnnc-gpu-resident",
          .chunk = chunk,
          .passes = PassSet::all()};
}

double tolerance(DType dtype) {
  if (dtype == DType::f32) return 2e-5;
  return dtype == DType::bf16 ? 2e-2 : 5e-3;
}

class GpuResidentGoldens : public testing::TestWithParam<std::string> {
 protected:
  void expect_goldens(DType dtype, int64_t chunk) {
    const auto report = run_golden_cases(golden_cases(GetParam(), {dtype}), resident(dtype, chunk));
    ASSERT_TRUE(report.has_value()) << report.error().message;
    EXPECT_LE(report->error, golden_tolerance(dtype)) << report->worst;
  }
};

TEST_P(GpuResidentGoldens, F32) {
  expect_goldens(DType::f32, 0);
}
TEST_P(GpuResidentGoldens, Bf16InChunks) {
  expect_goldens(DType::bf16, 8);
}
TEST_P(GpuResidentGoldens, F16) {
  expect_goldens(DType::f16, 0);
}
TEST_P(GpuResidentGoldens, NanAndInfinityFlowThrough) {
  const auto differences = nonfinite_differences(GetParam(), resident(DType::f32), 2e-5);
  ASSERT_TRUE(differences.has_value()) << differences.error().message;
  EXPECT_EQ(*differences, std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(Cells, GpuResidentGoldens, testing::ValuesIn(golden_cells()),
                         [](const auto& cell) { return cell.param; });

void check_lstm(const Graph& graph, const CompileOptions& options, int64_t steps, int64_t batch,
                bool misaligned, double most) {
  auto program = Program::compile(graph, options);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const Status prepared = program->prepare(batch, steps);
  ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
  const InterpreterArgs args = rounded(arguments_for(graph, steps, batch, true), options.dtype);
  const DeviceArguments arguments(*program, args, misaligned, {});
  // Twice: the second finds what the first left behind.
  for (int i = 0; i < 2; ++i) {
    const Status ran = program->forward(arguments.on(nullptr));
    ASSERT_TRUE(ran.has_value()) << ran.error().message;
    EXPECT_LE(error_of_results(arguments.results(), interpret_sequences(graph, args, {}, {})),
              most);
  }
}

/// Cells of several phases, and of rows of which a library's products are faster than rnnc's own.
class GpuManyRows : public testing::TestWithParam<std::string> {};

TEST_P(GpuManyRows, AreWhatTheInterpreterComputes) {
  const std::vector<GoldenCase> cases = golden_cases(GetParam(), {DType::bf16});
  const auto odd = [](const GoldenCase& golden_case) {
    return golden_case.size.name == "T7_B3_H7";
  };
  const auto found = std::ranges::find_if(cases, odd);
  ASSERT_NE(found, cases.end());
  const Result<Graph> graph = golden_graph(*found);
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const PassSet passes : {PassSet::all(), PassSet::all().without(Pass::Resident)}) {
      SCOPED_TRACE(fmt::format("{}, passes {}", to_string(dtype), passes.to_string()));
      CompileOptions options = resident(dtype, 4);
      options.passes = passes;
      check_run(*graph, options, random_sequences(6, 300, {.lengths = true}, true, 7),
                tolerance(dtype));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, GpuManyRows,
                         testing::Values("LSTM", "LayerNormLSTM", "GRUResetBefore", "LEM", "CfC",
                                         "LMU", "MUT2"),
                         [](const auto& cell) { return cell.param; });

struct Size {
  int64_t input, hidden, batch;
};

class GpuResidentLstm : public testing::TestWithParam<Size> {
 protected:
  void check(DType dtype, bool tf32, bool misaligned, double most) {
    const auto [input, hidden, batch] = GetParam();
    CompileOptions options = resident(dtype, 8);
    options.allow_tf32 = tf32;
    check_lstm(lstm_graph(input, hidden), options, 21, batch, misaligned, most);
  }
};

TEST_P(GpuResidentLstm, F32) {
  check(DType::f32, false, false, 2e-5);
}
TEST_P(GpuResidentLstm, Tf32) {
  check(DType::f32, true, false, 1e-2);
}
TEST_P(GpuResidentLstm, Bf16) {
  check(DType::bf16, false, false, 2e-2);
}
TEST_P(GpuResidentLstm, F16AtOddAddresses) {
  check(DType::f16, false, true, 5e-3);
}

INSTANTIATE_TEST_SUITE_P(Sizes, GpuResidentLstm,
                         testing::Values(Size{1, 1, 1}, Size{3, 7, 5}, Size{64, 64, 1},
                                         Size{33, 33, 40}, Size{80, 256, 16}, Size{129, 131, 17},
                                         Size{64, 1024, 16}),
                         [](const auto& test) {
                           return fmt::format("I{}_H{}_B{}", test.param.input, test.param.hidden,
                                              test.param.batch);
                         });

/// Place of the best tile with two laps of many rows, for a recurrence as large as calls for one;
/// -1: it is none of the first.
int64_t rank_of_many_rows(const Graph& graph, const CompileOptions& options, int64_t batch) {
  Result<Program> program = Program::compile(graph, options);
  RNNC_CHECK(program.has_value(), "{}", program.error().message);
  PlanOptions of_plan = {.dtype = options.dtype,
                         .batch = batch,
                         .max_steps = 2,
                         .tf32 = options.allow_tf32,
                         .machine = program->backend().machine()};
  for (; of_plan.tile_rank < 20; ++of_plan.tile_rank) {
    const Result<Plan> plan = build_plan(graph, of_plan);
    RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
    for (const Stage& stage : plan->stages) {
      const auto* launch = std::get_if<RecurrenceLaunch>(&stage.launches[0]);
      if (launch == nullptr) continue;
      const RecurrenceTile& tile = launch->tile;
      if (tile.groups == 1 && tile.rows > kMostUnrolledRows && tile.rows < batch) {
        return of_plan.tile_rank;
      }
    }
  }
  return -1;
}

// One code serves both passes.
TEST(GpuResidentPasses, OfManyRows) {
  constexpr int64_t kBatch = 34;
  for (const bool tf32 : {false, true}) {
    CompileOptions options = resident(DType::f32);
    options.allow_tf32 = tf32;
    bool found = false;
    for (const int64_t hidden : {130, 260, 390, 500, 700, 1001}) {  // one for each size of GPU
      const Graph graph = lstm_graph(8, hidden);
      const int64_t rank = rank_of_many_rows(graph, options, kBatch);
      if (rank < 0) continue;
      found = true;
      options.tile_rank = rank;
      check_lstm(graph, options, 3, kBatch, false, tf32 ? 1e-2 : 2e-5);
      break;
    }
    EXPECT_TRUE(found);
  }
}

class GpuResidentSequences : public testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  const Graph graph_ = sequence_graph(std::get<0>(GetParam()));
  const CompileOptions options_ = resident(std::get<1>(GetParam()), 4);
  const double tolerance_ = tolerance(std::get<1>(GetParam()));
};

TEST_P(GpuResidentSequences, MeanWhatEachSegmentByItselfDoes) {
  check_segments(graph_, options_, tolerance_);
}
TEST_P(GpuResidentSequences, PaddingChangesNothing) {
  check_padding(graph_, options_);
}

class GpuResidentStreams : public GpuResidentSequences {};

TEST_P(GpuResidentStreams, PiecesOfChunksGiveTheBitsOfOneRun) {
  check_pieces(graph_, options_, tolerance_);
}

const auto kDTypes = testing::Values(DType::f32, DType::bf16);
std::string case_name(const testing::TestParamInfo<std::tuple<std::string, DType>>& test) {
  const auto& [name, dtype] = test.param;
  return fmt::format("{}_{}", name, to_string(dtype));
}
INSTANTIATE_TEST_SUITE_P(Graphs, GpuResidentSequences,
                         testing::Combine(testing::ValuesIn(sequence_graphs()), kDTypes),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Graphs, GpuResidentStreams,
                         testing::Combine(testing::ValuesIn(streaming_graphs()), kDTypes),
                         case_name);

TEST(GpuResidentNetworks, OfSeveralBatches) {
  for (const std::string& name : networks()) {
    for (const int64_t batch : {1, 5, 40}) {
      SCOPED_TRACE(fmt::format("{}, batch {}", name, batch));
      check_run(network(name, 40), resident(DType::f32, 6), {.steps = 20, .batch = batch}, 2e-5);
    }
  }
}

// Two programs at once: each waits for blocks of its own only.
TEST(GpuResidentPrograms, RunBesideOneAnother) {
  const Graph graph = lstm_graph(40, 96);
  const auto make = [&graph] { return Program::compile(graph, resident(DType::bf16, 5)); };
  Result<Program> programs[] = {make(), make()};
  cudaStream_t streams[2] = {};
  std::vector<DeviceArguments> arguments;
  std::vector<InterpreterArgs> given;
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(programs[i].has_value()) << programs[i].error().message;
    const Status prepared = programs[i]->prepare(4, 23);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    given.push_back(rounded(arguments_for(graph, 23, 4, true), DType::bf16));
    arguments.emplace_back(*programs[i], given.back(), false, Sequences{});
    ASSERT_EQ(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking), cudaSuccess);
  }
  for (int turn = 0; turn < 20; ++turn) {
    for (size_t i = 0; i < 2; ++i) {
      const Status ran = programs[i]->forward(arguments[i].on(streams[i]));
      ASSERT_TRUE(ran.has_value()) << ran.error().message;
    }
  }
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(cudaStreamSynchronize(streams[i]), cudaSuccess);
    cudaStreamDestroy(streams[i]);
    EXPECT_LE(error_of_results(arguments[i].results(), interpret(graph, given[i])), 2e-2);
  }
}

}  // namespace
}  // namespace rnnc::test
