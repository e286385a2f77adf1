// Networks whose layers run side by side, in waves: lengths around a chunk, with and without
// graphs, each pass off alone, in pieces, two at once.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <tuple>

#include "passes/graph/delays.h"
#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/cells/sequence_cases.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

/// Step by step, or with the weights of all layers on the chip at once. Kernels are kept for the
/// whole program: those of many chunks are the same.
CompileOptions on_gpu(DType dtype, int64_t chunk, bool resident = false) {
  const PassSet passes = PassSet::all();
  return {.dtype = dtype,
          .device = {.kind = Device::Kind::cuda, .index = 0},
          .cache_directory = std::filesystem::path(testing::TempDir()) / "rnnc-gpu-waves",
          .chunk = chunk,
          .passes = resident ? passes : passes.without(Pass::Resident)};
}

double tolerance(DType dtype) {
  return dtype == DType::f32 ? 2e-5 : 3e-2;
}

/// A graph's program for one batch size, and calls of it. What goes wrong is a failure of the test.
class Calls {
 public:
  Calls(const Graph& graph, const CompileOptions& options, int64_t batch, int64_t most_steps)
      : graph_(graph), batch_(batch), program_(Program::compile(graph, options)) {
    if (!program_) {
      ADD_FAILURE() << program_.error().message;
      return;
    }
    const Status prepared = program_->prepare(batch, most_steps);
    if (!prepared) ADD_FAILURE() << prepared.error().message;
  }

  InterpreterArgs arguments(int64_t steps, uint64_t seed) const {
    return rounded(
        sequence_arguments(graph_, {.steps = steps, .batch = batch_, .given_states = true}, seed),
        program_->options().dtype);
  }

  DeviceArguments on_device(const InterpreterArgs& args) const { return {*program_, args}; }

  void launch(const DeviceArguments& arguments, Stream stream) {
    const Status ran = program_->forward(arguments.on(stream));
    if (!ran) ADD_FAILURE() << ran.error().message;
  }

  std::vector<std::vector<std::byte>> bits(const InterpreterArgs& args) {
    const DeviceArguments arguments = on_device(args);
    launch(arguments, nullptr);
    return arguments.result_bits();
  }

  double error(const InterpreterArgs& args) {
    const DeviceArguments arguments = on_device(args);
    launch(arguments, nullptr);
    return error_of_results(arguments.results(), interpret(graph_, args));
  }

  explicit operator bool() const { return program_.has_value(); }

 private:
  const Graph& graph_;
  int64_t batch_;
  Result<Program> program_;
};

using WavesCase = std::tuple<std::string, DType, bool>;

class GpuWaves : public testing::TestWithParam<WavesCase> {
 protected:
  CompileOptions options(int64_t chunk) const {
    return on_gpu(dtype_, chunk, std::get<2>(GetParam()));
  }

  const DType dtype_ = std::get<1>(GetParam());
};

// One step, less than half a chunk, more, whole chunks, fewer and more chunks than there are lags.
TEST_P(GpuWaves, OfEveryLength) {
  const Graph graph = network(std::get<0>(GetParam()), 20);
  for (const int64_t chunk : {1, 2, 5, 8}) {
    SCOPED_TRACE(fmt::format("chunk {}", chunk));
    Calls calls(graph, options(chunk), 3, 17);
    ASSERT_TRUE(calls);
    for (const int64_t steps : {1, 2, 3, 5, 8, 12, 17}) {
      EXPECT_LE(calls.error(calls.arguments(steps, 1)), tolerance(dtype_)) << steps << " steps";
    }
  }
}

// Whatever the chunk, the numbers are the same to rounding; with the same chunk so are the bits, in
// graphs or not.
TEST_P(GpuWaves, GiveTheSameBitsWithoutGraphs) {
  const Graph graph = network(std::get<0>(GetParam()), 32);
  Calls replayed(graph, options(4), 4, 19);
  CompileOptions without = options(4);
  without.graphs = false;
  Calls direct(graph, without, 4, 19);
  ASSERT_TRUE(replayed && direct);
  for (const int64_t steps : {1, 4, 7, 19}) {
    const InterpreterArgs args = replayed.arguments(steps, 2);
    EXPECT_EQ(replayed.bits(args), direct.bits(args)) << steps << " steps";
  }
}

// Sizes at which a layer needs several tiles, and batches of each kind of product.
TEST_P(GpuWaves, OfSeveralSizesAndBatches) {
  struct Size {
    int64_t width, batch;
  };
  for (const Size size : {Size{7, 1}, Size{64, 16}, Size{96, 33}, Size{130, 64}}) {
    SCOPED_TRACE(fmt::format("width {}, batch {}", size.width, size.batch));
    const Graph graph = network(std::get<0>(GetParam()), size.width);
    Calls calls(graph, options(6), size.batch, 20);
    ASSERT_TRUE(calls);
    EXPECT_LE(calls.error(calls.arguments(20, 3)), tolerance(dtype_));
  }
}

TEST_P(GpuWaves, RunBesideOneAnother) {
  const Graph graph = network(std::get<0>(GetParam()), 40);
  Calls first(graph, options(4), 4, 23);
  Calls second(graph, options(4), 4, 23);
  ASSERT_TRUE(first && second);
  const InterpreterArgs args = first.arguments(23, 4);
  const InterpreterArgs others = second.arguments(23, 5);
  const auto expected = first.bits(args);
  const auto expected_other = second.bits(others);
  cudaStream_t streams[2] = {};
  for (cudaStream_t& stream : streams) {
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  }
  const DeviceArguments one = first.on_device(args);
  const DeviceArguments other = second.on_device(others);
  for (int i = 0; i < 10; ++i) {
    first.launch(one, streams[0]);
    second.launch(other, streams[1]);
  }
  for (cudaStream_t stream : streams) {
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    cudaStreamDestroy(stream);
  }
  EXPECT_EQ(one.result_bits(), expected);
  EXPECT_EQ(other.result_bits(), expected_other);
}

std::string case_name(const testing::TestParamInfo<WavesCase>& test) {
  const auto& [network, dtype, resident] = test.param;
  return fmt::format("{}_{}{}", network, to_string(dtype), resident ? "_resident" : "");
}
INSTANTIATE_TEST_SUITE_P(Networks, GpuWaves,
                         testing::Combine(testing::ValuesIn(networks()),
                                          testing::Values(DType::f32, DType::bf16),
                                          testing::Bool()),
                         case_name);

TEST(GpuWavePieces, OfWholeChunksGiveTheBitsOfOneRun) {
  for (const std::string& name : networks()) {
    if (name == "Both") continue;  // its layers in reverse need the whole sequence
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(fmt::format("{} in {}", name, to_string(dtype)));
      for (const bool resident : {false, true}) {
        check_pieces(network(name, 24), on_gpu(dtype, 2, resident), tolerance(dtype));
      }
    }
  }
}

TEST(GpuWaveFeatures, LengthsAndResets) {
  for (const std::string& name : networks()) {
    const Graph graph = network(name, 24);
    for (const uint32_t kind : {1U, 2U, 3U}) {
      SCOPED_TRACE(name);
      const SequenceFeatures features = {.lengths = (kind & 1) != 0, .resets = (kind & 2) != 0};
      for (const bool resident : {false, true}) {
        check_run(graph, on_gpu(DType::f32, 4, resident),
                  random_sequences(18, 5, features, true, kind), 2e-5);
      }
    }
  }
}

// ---- Passes ----

/// None at all, and each off alone.
std::vector<PassSet> pass_sets() {
  std::vector<PassSet> sets = {PassSet::none()};
  for (const PassInfo& info : all_passes()) {
    sets.push_back(PassSet::all().without(info.pass));
  }
  return sets;
}

void check_passes(const Graph& graph, DType dtype) {
  for (const PassSet& passes : pass_sets()) {
    SCOPED_TRACE(passes.to_string());
    CompileOptions options = on_gpu(dtype, 4);
    options.passes = passes;
    Calls calls(graph, options, 3, 10);
    ASSERT_TRUE(calls);
    EXPECT_LE(calls.error(calls.arguments(10, 6)), tolerance(dtype));
  }
}

TEST(GpuPasses, OfNetworks) {
  for (const char* name : {"Stack", "Mixed", "Both"}) {
    SCOPED_TRACE(name);
    check_passes(network(name, 20), DType::f32);
  }
}

TEST(GpuPasses, InBf16) {
  check_passes(network("Stack", 20), DType::bf16);
}

TEST(GpuPasses, OfCells) {
  for (const char* cell : {"GRUResetBefore", "LayerNormLSTM", "IndRNN", "QRNN", "RHN"}) {
    SCOPED_TRACE(cell);
    GoldenCase golden;
    golden.cell = cell;
    golden.size.dims = {{"I", 12}, {"H", 16}};
    const Result<Graph> graph = golden_graph(golden);
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    check_passes(*graph, DType::f32);
  }
}

TEST(GpuPasses, RandomSubsetsOfRandomGraphs) {
  for (uint64_t seed = 500; seed < 524; ++seed) {
    Graph graph = random_graph(
        seed,
        {.operations = 30, .largest_size = 24, .structure = true, .reversals = seed % 4 == 3});
    run_delays(graph);
    CompileOptions options = on_gpu(DType::f32, 1 + static_cast<int64_t>(seed % 5));
    options.graphs = seed % 3 != 0;
    uint64_t bits = seed * 0x9e3779b97f4a7c15;
    for (const PassInfo& info : all_passes()) {
      bits = bits * 6364136223846793005 + 1442695040888963407;
      if (bits >> 63 != 0) options.passes = options.passes.without(info.pass);
    }
    SCOPED_TRACE(fmt::format("seed {}, passes {}", seed, options.passes.to_string()));
    Calls calls(graph, options, 3, 11);
    ASSERT_TRUE(calls);
    for (const int64_t steps : {1, 4, 11}) {
      EXPECT_LE(calls.error(calls.arguments(steps, seed)), 3e-5) << steps << " steps";
    }
  }
}

}  // namespace
}  // namespace rnnc::test
