// What runtime/program/program.h promises of training calls on a GPU besides their numbers.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"
#include "tests/gpu/unhindered.h"
#include "tests/support/cells/networks.h"
#include "tests/support/gradients/training_run.h"

namespace rnnc::test {
namespace {

/// Arrays that lie on the device, in the types of a program's.
class Arrays {
 public:
  Arrays(const std::vector<ArrayInfo>& infos, const std::vector<NamedArray>& values) {
    for (size_t i = 0; i < infos.size(); ++i) {
      memory_.emplace_back(values[i].array.elements() * size_of(infos[i].dtype));
      memory_.back().upload(values[i].array.to_doubles(), infos[i].dtype);
    }
  }
  Arrays(const std::vector<ArrayInfo>& infos, int64_t rows) {
    for (const ArrayInfo& info : infos) {
      memory_.emplace_back(rows * info.elements() * size_of(info.dtype));
    }
  }

  std::vector<const void*> read() const {
    std::vector<const void*> pointers;
    for (const DeviceArray& array : memory_) pointers.push_back(array.data());
    return pointers;
  }
  std::vector<void*> written() const {
    std::vector<void*> pointers;
    for (const DeviceArray& array : memory_) pointers.push_back(array.data());
    return pointers;
  }
  void append_bits(std::vector<std::vector<std::byte>>& bits) const {
    for (const DeviceArray& array : memory_) bits.push_back(array.download_bytes());
  }

 private:
  std::vector<DeviceArray> memory_;
};

struct TrainingCase {
  DType dtype = DType::f32;
  int64_t checkpoint = 0;
  bool resident = true;
  bool outputs = false;  // earlier states are read from outputs: no lengths, no given states
};

constexpr TrainingRun kRun = {.steps = 45, .batch = 4, .lengths = true, .given_states = true};

Program make(const TrainingCase& one) {
  CompileOptions options = {
      .dtype = one.dtype, .device = {.kind = Device::Kind::cuda, .index = 0}, .chunk = 8};
  if (!one.resident) options.passes = PassSet::all().without(Pass::Resident).without(Pass::Loop);
  auto program = Program::compile(network("Stack", 96), options);
  RNNC_CHECK(program.has_value(), "{}", program.error().message);
  return *std::move(program);
}

TrainingOptions all_of(const Signature& signature, const TrainingCase& one) {
  return {.params = std::vector<bool>(signature.params.size(), true),
          .inputs = std::vector<bool>(signature.inputs.size(), true),
          .initial_states = std::vector<bool>(signature.states.size(), !one.outputs),
          .given_states = std::vector<bool>(signature.states.size(), !one.outputs),
          .outputs = one.outputs,
          .checkpoint = one.checkpoint};
}

/// Both calls of a program, all of whose memory is there.
class TrainingCalls {
 public:
  TrainingCalls(Program& program, const TrainingCase& one)
      : program_(program),
        case_(one),
        signature_(program.signature()),
        random_(random_training(signature_, kRun)),
        inputs_(signature_.inputs, random_.args.inputs),
        params_(signature_.params, random_.args.params),
        initial_(signature_.states, random_.args.initial_states),
        output_gradients_(signature_.outputs, random_.loss.outputs),
        final_gradients_(signature_.states, random_.loss.final_states),
        outputs_(signature_.outputs, kRun.steps * kRun.batch),
        final_(signature_.states, kRun.batch),
        of_inputs_(signature_.inputs, kRun.steps * kRun.batch),
        of_params_(signature_.params, 1),
        of_initial_(signature_.states, kRun.batch),
        lengths_(kRun.batch * sizeof(int32_t)),
        sizes_(prepare()),
        workspace_(std::max(sizes_.forward_workspace, sizes_.backward_workspace)),
        reserve_(sizes_.reserve) {
    const std::vector<int64_t>& lengths = *random_.args.lengths;
    const std::vector<int32_t> narrow(lengths.begin(), lengths.end());
    lengths_.upload(narrow.data());
  }

  Status run(Stream stream) {
    const std::vector<const void*> inputs = inputs_.read(), params = params_.read();
    const std::vector<const void*> initial =
        case_.outputs ? std::vector<const void*>() : initial_.read();
    const std::vector<void*> outputs = outputs_.written(), final = final_.written();
    const auto* lengths = case_.outputs ? nullptr : static_cast<const int32_t*>(lengths_.data());
    Status forward = program_.forward({.steps = kRun.steps,
                                       .batch = kRun.batch,
                                       .inputs = inputs,
                                       .params = params,
                                       .outputs = outputs,
                                       .initial_states = initial,
                                       .final_states = final,
                                       .workspace = workspace_.data(),
                                       .workspace_bytes = workspace_.bytes(),
                                       .stream = stream,
                                       .lengths = lengths,
                                       .reserve = reserve_.data(),
                                       .reserve_bytes = reserve_.bytes()});
    if (!forward) return forward;
    const std::vector<const void*> of_outputs = output_gradients_.read();
    const std::vector<const void*> of_final = final_gradients_.read();
    const std::vector<void*> of_inputs = of_inputs_.written(), of_params = of_params_.written();
    const std::vector<void*> of_initial =
        case_.outputs ? std::vector<void*>() : of_initial_.written();
    const std::vector<const void*> read_outputs = outputs_.read();
    return program_.backward({.steps = kRun.steps,
                              .batch = kRun.batch,
                              .inputs = inputs,
                              .params = params,
                              .outputs = read_outputs,
                              .output_gradients = of_outputs,
                              .final_state_gradients = of_final,
                              .param_gradients = of_params,
                              .input_gradients = of_inputs,
                              .initial_state_gradients = of_initial,
                              .workspace = workspace_.data(),
                              .workspace_bytes = workspace_.bytes(),
                              .stream = stream,
                              .lengths = lengths,
                              .reserve = reserve_.data(),
                              .reserve_bytes = reserve_.bytes()});
  }

  std::vector<std::vector<std::byte>> bits() const {
    std::vector<std::vector<std::byte>> bits;
    for (const Arrays* arrays : {&outputs_, &final_, &of_inputs_, &of_params_, &of_initial_}) {
      arrays->append_bits(bits);
    }
    return bits;
  }

 private:
  TrainingSizes prepare() {
    const SequenceFeatures features{.lengths = !case_.outputs};
    const Status prepared =
        program_.prepare_training(kRun.batch, kRun.steps, all_of(signature_, case_), features);
    RNNC_CHECK(prepared.has_value(), "{}", prepared.error().message);
    return program_.training_sizes(kRun.batch, kRun.steps, features).value();
  }

  Program& program_;
  const TrainingCase& case_;
  const Signature& signature_;
  TrainingArrays random_;
  Arrays inputs_, params_, initial_, output_gradients_, final_gradients_;
  Arrays outputs_, final_, of_inputs_, of_params_, of_initial_;
  DeviceArray lengths_;
  TrainingSizes sizes_;
  DeviceArray workspace_, reserve_;
};

class GpuTraining : public testing::TestWithParam<TrainingCase> {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  void TearDown() override { cudaStreamDestroy(stream_); }
  void wait() const { ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

  cudaStream_t stream_ = nullptr;
};

TEST_P(GpuTraining, TenTimesGivesTheSameBits) {
  Program program = make(GetParam());
  TrainingCalls calls(program, GetParam());
  ASSERT_TRUE(calls.run(stream_));
  wait();
  const auto expected = calls.bits();
  for (int i = 1; i < 10; ++i) {
    ASSERT_TRUE(calls.run(stream_));
    wait();
    ASSERT_EQ(calls.bits(), expected) << "call " << i;
  }
}

TEST_P(GpuTraining, IsCapturedInTheCallersGraph) {
  Program program = make(GetParam());
  TrainingCalls calls(program, GetParam());
  ASSERT_TRUE(calls.run(stream_));
  wait();
  const auto expected = calls.bits();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  const Status ran = calls.run(stream_);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_TRUE(ran) << ran.error().message;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
    wait();
    EXPECT_EQ(calls.bits(), expected);
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST_P(GpuTraining, NeitherWaitsNorAllocates) {
  Program program = make(GetParam());
  TrainingCalls calls(program, GetParam());
  expect_neither_waits_nor_allocates(stream_, [&] { return calls.run(stream_); });
}

INSTANTIATE_TEST_SUITE_P(Cases, GpuTraining,
                         testing::Values(TrainingCase{DType::f32}, TrainingCase{DType::bf16},
                                         TrainingCase{DType::bf16, 8}, TrainingCase{DType::f32, 16},
                                         TrainingCase{DType::f32, 8, false},
                                         TrainingCase{DType::bf16, 0, true, true}));

// ---- Checkpoints give the bits of one piece. ----

using CheckpointCase = std::tuple<DType, bool>;
class GpuCheckpoints : public testing::TestWithParam<CheckpointCase> {};

TEST_P(GpuCheckpoints, GiveTheSameBits) {
  const auto [dtype, resident] = GetParam();
  CompileOptions options = {.dtype = dtype, .device = {.kind = Device::Kind::cuda, .index = 0}};
  if (!resident) options.passes = PassSet::all().without(Pass::Resident).without(Pass::Loop);
  uint64_t seed = 0;
  for (const int64_t chunk : {0, 8}) {
    for (const int64_t steps : {64, 45}) {
      for (const std::string lower : {"Dense", "Normed"}) {
        SCOPED_TRACE(fmt::format("{}, chunk {}, {} steps", lower, chunk, steps));
        options.chunk = chunk;
        ++seed;
        check_checkpoints(tower({lower, "Gated"}, 40), options,
                          {.steps = steps,
                           .batch = 5,
                           .seed = seed,
                           .lengths = seed % 2 == 1,
                           .resets = seed % 3 == 0,
                           .given_states = seed % 2 == 0},
                          {1, 16, 24});
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuCheckpoints,
                         testing::Combine(testing::Values(DType::f32, DType::bf16, DType::f16),
                                          testing::Bool()),
                         [](const auto& one) {
                           return fmt::format("{}_{}", to_string(std::get<DType>(one.param)),
                                              std::get<bool>(one.param) ? "resident" : "stepped");
                         });

TEST(GpuCheckpointsOfLstms, GiveTheSameBits) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    check_checkpoints(lstm_graph(64, 256),
                      {.dtype = dtype, .device = {.kind = Device::Kind::cuda, .index = 0}},
                      {.steps = 300, .batch = 16, .given_states = true}, {64, 100});
  }
}

}  // namespace
}  // namespace rnnc::test
