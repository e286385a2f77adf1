// What runtime/program/program.h promises of a forward call on a GPU besides its numbers.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <thread>

#include "runtime/backend/backend.h"
#include "runtime/backend/kernel_cache.h"
#include "runtime/program/run.h"
#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"
#include "tests/gpu/unhindered.h"
#include "tests/runtime/temporary_directory.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/sequence_graphs.h"
#include "tests/support/reference/sequence_oracle.h"
#include "tests/support/shared_program.h"

namespace rnnc::test {
namespace {

constexpr int64_t kChunk = 8;
constexpr int64_t kSteps = 3 * kChunk + 5;
constexpr int64_t kBatch = 4;

class OwnedStream {
 public:
  OwnedStream() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~OwnedStream() { cudaStreamDestroy(stream_); }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  cudaStream_t get() const { return stream_; }
  void wait() const { ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Plain calls of a cell or of a stack of layers side by side, or calls with lengths and resets of
/// a network that goes over the sequence in three sweeps.
enum class Kind : uint8_t { Cell, Stack, Sweeps };

struct ContractCase {
  Kind kind = Kind::Cell;
  DType dtype = DType::f32;
};

Graph contract_graph(Kind kind) {
  switch (kind) {
    case Kind::Cell:
      return lstm_graph(48, 96);
    case Kind::Stack:
      return network("Stack", 96);
    case Kind::Sweeps:
      break;
  }
  return sequence_graph("Bidirectional", {{"I", 24}, {"H", 40}});
}

struct Call {
  InterpreterArgs args;
  Sequences sequences;
};

class GpuContract : public testing::TestWithParam<ContractCase> {
 protected:
  GpuContract() : graph_(contract_graph(GetParam().kind)) {
    call_.args = arguments_for(graph_, kSteps, kBatch, true);
    if (GetParam().kind == Kind::Sweeps) {
      call_.sequences = random_sequences(kSteps, kBatch, {.lengths = true, .resets = true},
                                         /*given_states=*/true, 1);
      call_.args = sequence_arguments(graph_, call_.sequences, 1);
    }
    call_.args = rounded(call_.args, GetParam().dtype);
  }

  /// The same with its input times `factor`, and other lengths and resets.
  Call other_call(double factor) const {
    Call other = call_;
    for (double& value : other.args.inputs[0]) value *= factor;
    other.args = rounded(other.args, GetParam().dtype);
    if (GetParam().kind == Kind::Sweeps) {
      other.sequences = random_sequences(kSteps, kBatch, {.lengths = true, .resets = true},
                                         /*given_states=*/true, 2);
    }
    return other;
  }

  Program make(std::filesystem::path cache = {}, int64_t batch = kBatch) {
    auto program = Program::compile(graph_, {.dtype = GetParam().dtype,
                                             .device = {.kind = Device::Kind::cuda, .index = 0},
                                             .cache_directory = std::move(cache),
                                             .chunk = kChunk});
    RNNC_CHECK(program.has_value(), "{}", program.error().message);
    const Status prepared = program->prepare(batch, kSteps, call_.sequences.features());
    RNNC_CHECK(prepared.has_value(), "{}", prepared.error().message);
    return std::move(*program);
  }

  static DeviceArguments on_device(const Program& program, const Call& call) {
    return {program, call.args, /*misaligned=*/false, call.sequences};
  }

  static void run(Program& program, const DeviceArguments& arguments, cudaStream_t stream) {
    const Status ran = program.forward(arguments.on(stream));
    ASSERT_TRUE(ran.has_value()) << ran.error().message;
  }

  double tolerance() const { return GetParam().dtype == DType::f32 ? 2e-5 : 2e-2; }

  /// Bits of a plain call.
  std::vector<std::vector<std::byte>> expected_bits(const Call& call) {
    Program program = make();
    const DeviceArguments arguments = on_device(program, call);
    const OwnedStream stream;
    run(program, arguments, stream.get());
    stream.wait();
    const InterpreterResult expected =
        interpret_sequences(graph_, call.args, call.sequences.lengths, call.sequences.resets);
    EXPECT_LE(error_of_results(arguments.results(), expected), tolerance());
    return arguments.result_bits();
  }

  Graph graph_;
  Call call_;
};

TEST_P(GpuContract, SameBitsEveryTimeOnAnyStream) {
  const auto expected = expected_bits(call_);
  Program program = make();
  const OwnedStream own;
  for (cudaStream_t stream : {own.get(), cudaStream_t{nullptr}, cudaStreamPerThread, own.get()}) {
    const DeviceArguments arguments = on_device(program, call_);
    run(program, arguments, stream);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(arguments.result_bits(), expected);
  }
}

TEST_P(GpuContract, NothingOfOneCallStaysInTheNext) {
  const Call other = other_call(-0.5);
  const auto expected = expected_bits(call_);
  const auto expected_other = expected_bits(other);
  ASSERT_NE(expected, expected_other);

  Program program = make();
  const OwnedStream stream;
  // Two sets of addresses in turn, without a pause between the calls.
  const DeviceArguments first = on_device(program, call_);
  const DeviceArguments second = on_device(program, other);
  for (int i = 0; i < 4; ++i) {
    run(program, first, stream.get());
    run(program, second, stream.get());
  }
  stream.wait();
  EXPECT_EQ(first.result_bits(), expected);
  EXPECT_EQ(second.result_bits(), expected_other);
}

/// Of what runs forward throughout.
class GpuPieces : public GpuContract {};

TEST_P(GpuPieces, OfWholeChunksGiveTheSameBits) {
  const auto expected = expected_bits(call_);
  Program program = make();
  const OwnedStream stream;
  InterpreterArgs piece = call_.args;
  std::vector<std::vector<std::byte>> bits(expected.size());
  const auto width = std::ssize(call_.args.inputs[0]) / (kSteps * kBatch);
  for (int64_t start = 0; start < kSteps; start += 2 * kChunk) {
    piece.steps = std::min(2 * kChunk, kSteps - start);
    const auto begin = call_.args.inputs[0].begin() + start * kBatch * width;
    piece.inputs[0].assign(begin, begin + piece.steps * kBatch * width);
    const DeviceArguments arguments(program, piece);
    run(program, arguments, stream.get());
    stream.wait();
    const auto result = arguments.result_bits();
    bits[0].insert(bits[0].end(), result[0].begin(), result[0].end());
    std::copy(result.begin() + 1, result.end(), bits.begin() + 1);
    piece.initial_states = arguments.results().final_states;
  }
  EXPECT_EQ(bits, expected);
}

TEST_P(GpuContract, IsCapturedInTheCallersGraph) {
  const Call other = other_call(0.25);
  const auto expected = expected_bits(call_);
  const auto expected_other = expected_bits(other);

  // The first call is captured, in the mode in which allocating or waiting would fail.
  Program program = make();
  DeviceArguments arguments = on_device(program, call_);
  const OwnedStream stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal), cudaSuccess);
  run(program, arguments, stream.get());
  ASSERT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);

  ASSERT_EQ(cudaGraphLaunch(executable, stream.get()), cudaSuccess);
  stream.wait();
  EXPECT_EQ(arguments.result_bits(), expected);
  arguments.upload(other.args, other.sequences);
  ASSERT_EQ(cudaGraphLaunch(executable, stream.get()), cudaSuccess);
  stream.wait();
  EXPECT_EQ(arguments.result_bits(), expected_other);
  // A plain call in between does not disturb the graph.
  run(program, on_device(program, call_), stream.get());
  ASSERT_EQ(cudaGraphLaunch(executable, stream.get()), cudaSuccess);
  stream.wait();
  EXPECT_EQ(arguments.result_bits(), expected_other);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST_P(GpuContract, IsReplayedOnAStreamOfItsOwn) {
  const Call other = other_call(0.25);
  const auto expected = expected_bits(call_);
  const auto expected_other = expected_bits(other);

  Program program = make();
  DeviceArguments arguments = on_device(program, call_);
  const auto untouched = arguments.result_bits();
  const Result<std::unique_ptr<CapturedWork>> captured = program.backend().capture(
      [&](Stream stream) { return program.forward(arguments.on(stream)); });
  ASSERT_TRUE(captured.has_value()) << captured.error().message;
  CapturedWork& work = **captured;
  EXPECT_NE(work.stream(), nullptr);
  EXPECT_EQ(arguments.result_bits(), untouched);
  const auto replay = [&] {
    const Status replayed = work.replay();
    ASSERT_TRUE(replayed.has_value()) << replayed.error().message;
    const Status waited = program.backend().synchronize(work.stream());
    ASSERT_TRUE(waited.has_value()) << waited.error().message;
  };
  replay();
  EXPECT_EQ(arguments.result_bits(), expected);
  arguments.upload(other.args, other.sequences);
  replay();
  EXPECT_EQ(arguments.result_bits(), expected_other);
}

TEST_P(GpuContract, NeitherWaitsNorAllocates) {
  Program program = make();
  const DeviceArguments arguments = on_device(program, call_);
  const OwnedStream stream;
  expect_neither_waits_nor_allocates(stream.get(),
                                     [&] { return program.forward(arguments.on(stream.get())); });
}

TEST_P(GpuContract, TwoProgramsRunFromTwoThreads) {
  const auto expected = expected_bits(call_);
  const auto worker = [&](bool& same) {
    Program program = make();
    const OwnedStream stream;
    const DeviceArguments arguments = on_device(program, call_);
    same = true;
    for (int i = 0; i < 20; ++i) {
      run(program, arguments, stream.get());
      stream.wait();
      same = same && arguments.result_bits() == expected;
    }
  };
  bool same[2] = {};
  std::thread first(worker, std::ref(same[0]));
  std::thread second(worker, std::ref(same[1]));
  first.join();
  second.join();
  EXPECT_TRUE(same[0]);
  EXPECT_TRUE(same[1]);
}

TEST_P(GpuContract, PreparingGoesOnDuringACaptureElsewhere) {
  Program program = make();
  const DeviceArguments arguments = on_device(program, call_);
  const OwnedStream stream;
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal), cudaSuccess);
  // It stays alive: destroying a program waits for the device, which a capture forbids.
  std::optional<Program> other;
  std::thread([&] { other.emplace(make({}, kBatch + 1)); }).join();
  run(program, arguments, stream.get());
  ASSERT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
  cudaGraphDestroy(graph);
}

TEST_P(GpuContract, KeptWeightsGiveTheSameBits) {
  const auto expected = expected_bits(call_);
  Program program = make();
  const OwnedStream stream;
  const DeviceArguments arguments = on_device(program, call_);
  run(program, arguments, stream.get());
  ForwardArgs again = arguments.on(stream.get());
  again.reuse_params = true;
  ASSERT_TRUE(program.forward(again).has_value());
  stream.wait();
  EXPECT_EQ(arguments.result_bits(), expected);
}

TEST_P(GpuContract, TheWorkspaceLiesAnywhere) {
  const auto expected = expected_bits(call_);
  Program program = make();
  const OwnedStream stream;
  for (const size_t shift : {1, 13, 255}) {
    const DeviceArguments arguments = on_device(program, call_);
    ForwardArgs args = arguments.on(stream.get());
    const DeviceArray workspace(args.workspace_bytes, shift);
    args.workspace = workspace.data();
    const Status ran = program.forward(args);
    ASSERT_TRUE(ran.has_value()) << ran.error().message;
    stream.wait();
    EXPECT_EQ(arguments.result_bits(), expected);
  }
}

TEST_P(GpuContract, KernelsComeFromTheCache) {
  const TemporaryDirectory directory;
  const auto expected = expected_bits(call_);
  for (int i = 0; i < 2; ++i) {
    Program program = make(directory.path());
    const OwnedStream stream;
    const DeviceArguments arguments = on_device(program, call_);
    run(program, arguments, stream.get());
    stream.wait();
    EXPECT_EQ(arguments.result_bits(), expected);
    EXPECT_EQ(KernelCache(directory.path()).usage().value().entries, 2);  // and NVRTC's version
  }
}

std::vector<ContractCase> contract_cases(const std::vector<Kind>& kinds) {
  std::vector<ContractCase> cases;
  for (const Kind kind : kinds) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) cases.push_back({kind, dtype});
  }
  return cases;
}

std::string case_name(const testing::TestParamInfo<ContractCase>& test) {
  constexpr const char* kNames[] = {"Cell", "Stack", "Sweeps"};
  return fmt::format("{}_{}", kNames[static_cast<size_t>(test.param.kind)],
                     to_string(test.param.dtype));
}

INSTANTIATE_TEST_SUITE_P(All, GpuContract,
                         testing::ValuesIn(contract_cases({Kind::Cell, Kind::Stack, Kind::Sweeps})),
                         case_name);
INSTANTIATE_TEST_SUITE_P(All, GpuPieces,
                         testing::ValuesIn(contract_cases({Kind::Cell, Kind::Stack})), case_name);

RunArgs named(const Graph& graph, const InterpreterArgs& args) {
  RunArgs named;
  named.inputs = {
      {"x", Array::from_doubles(args.inputs[0], {args.steps, args.batch, 24}, DType::f32)}};
  for (size_t i = 0; i < graph.params.size(); ++i) {
    std::vector<int64_t> shape;
    for (const Dim& size : graph.params[i].type.shape) shape.push_back(*size.constant());
    named.params.push_back(
        {graph.params[i].name, Array::from_doubles(args.params[i], shape, DType::f32)});
  }
  return named;
}

/// Outputs and final states.
std::vector<std::vector<double>> values_of(const RunResult& result) {
  std::vector<std::vector<double>> values;
  for (const auto& arrays : {result.outputs, result.final_states}) {
    for (const NamedArray& array : arrays) values.push_back(array.array.to_doubles());
  }
  return values;
}

TEST(GpuRunner, ReplaysTakeTimeAndChangeNothing) {
  const Graph graph = lstm_graph(24, 48);
  auto program = Program::compile(
      graph, {.device = {.kind = Device::Kind::cuda, .index = 0}, .chunk = kChunk});
  ASSERT_TRUE(program.has_value()) << program.error().message;
  Runner runner(*program);
  RunArgs args = named(graph, arguments_for(graph, kSteps, kBatch));
  std::vector<std::vector<double>> expected;
  for (const int64_t piece : {int64_t{0}, kChunk}) {
    args.piece = piece;
    const Result<RunResult> first = runner.run(args);
    ASSERT_TRUE(first.has_value()) << first.error().message;
    if (piece == 0) expected = values_of(*first);
    EXPECT_EQ(values_of(*first), expected);
    const Result<double> replayed = runner.time_replayed_per_step(3);
    ASSERT_TRUE(replayed.has_value()) << replayed.error().message;
    EXPECT_GT(*replayed, 0);
    const Result<double> plain = runner.time_per_step(1);
    ASSERT_TRUE(plain.has_value()) << plain.error().message;
    const Result<RunResult> again = runner.run(args);
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(values_of(*again), expected);
  }
}

TEST(GpuRunner, ReplaysOfTrainingTakeTimeAndChangeNothing) {
  const Graph graph = lstm_graph(24, 48);
  for (const int64_t checkpoint : {int64_t{0}, kChunk}) {
    auto program = Program::compile(
        graph, {.device = {.kind = Device::Kind::cuda, .index = 0}, .chunk = kChunk});
    ASSERT_TRUE(program.has_value()) << program.error().message;
    Runner runner(*program);
    const RunArgs args = named(graph, arguments_for(graph, kSteps, kBatch));
    const Result<RunResult> run = runner.run(args);
    ASSERT_TRUE(run.has_value()) << run.error().message;
    const auto gradients = [&] {
      std::vector<std::vector<double>> values;
      const Result<RunGradients> of =
          runner.gradients(args, {.outputs = run->outputs}, ResidualChoice::Auto, checkpoint);
      EXPECT_TRUE(of.has_value()) << of.error().message;
      if (!of) return values;
      for (const NamedArray& array : of->params) values.push_back(array.array.to_doubles());
      return values;
    };
    const std::vector<std::vector<double>> expected = gradients();
    const Result<double> replayed = runner.time_replayed_training_per_step(3);
    ASSERT_TRUE(replayed.has_value()) << replayed.error().message;
    EXPECT_GT(*replayed, 0);
    EXPECT_EQ(gradients(), expected);
  }
}

TEST(GpuRunner, EachRunsOnItsOwnParams) {
  for (const PassSet passes : {PassSet::all(), PassSet::all().without(Pass::Resident)}) {
    SCOPED_TRACE(passes.to_string());
    check_shared_program(
        {.device = {.kind = Device::Kind::cuda, .index = 0}, .chunk = kChunk, .passes = passes});
  }
}

TEST(GpuErrors, OfWhatIsCapturedAreTold) {
  auto program =
      Program::compile(lstm_graph(1, 1), {.device = {.kind = Device::Kind::cuda, .index = 0}});
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const auto captured = program->backend().capture(
      [](Stream) -> Status { return fail("there is nothing to capture"); });
  ASSERT_FALSE(captured.has_value());
  EXPECT_EQ(captured.error().message, "there is nothing to capture");
}

TEST(GpuErrors, SayHowMuchMemoryIsNeededAndFree) {
  auto program = Program::compile(lstm_graph(1, 64),
                                  {.device = {.kind = Device::Kind::cuda, .index = 0}, .chunk = 1});
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const Status prepared = program->prepare(int64_t{1} << 28, 1);
  ASSERT_FALSE(prepared.has_value());
  const std::string& message = prepared.error().message;
  EXPECT_TRUE(message.starts_with("too little memory on cuda:0 (")) << message;
  EXPECT_NE(message.find(" GiB are needed, "), std::string::npos) << message;
  EXPECT_TRUE(message.ends_with(" GiB are free")) << message;
  // The device still works.
  const Status small = program->prepare(1, 1);
  EXPECT_TRUE(small.has_value()) << small.error().message;
}

TEST(GpuErrors, NameTheMissingDevice) {
  const auto program =
      Program::compile(lstm_graph(1, 1), {.device = {.kind = Device::Kind::cuda, .index = 1000}});
  ASSERT_FALSE(program.has_value());
  EXPECT_TRUE(program.error().message.starts_with(
      "device `cuda:1000` cannot be used: there is no cuda:1000; this machine has "))
      << program.error().message;
}

}  // namespace
}  // namespace rnnc::test
