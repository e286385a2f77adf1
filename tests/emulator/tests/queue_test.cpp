// The emulator's streams and graphs: only what is made to wait does.
#include <gtest/gtest.h>

#include <functional>

#include "tests/emulator/emulator.h"
#include "tests/emulator/tests/emulated_unit.h"

namespace rnnc::test {
namespace {

constexpr int kSeeds = 16;

class EmulatorQueue : public testing::Test {
 protected:
  EmulatorQueue()
      : unit_(R"(
    extern "C" __global__ void put(unsigned* to, unsigned value) { *to = value; }
    extern "C" __global__ void copy(unsigned* to, const unsigned* from) { *to = *from; })") {
    for (cudaStream_t& stream : streams_) {
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    }
    cudaEventCreateWithFlags(&event_, cudaEventDisableTiming);
  }
  ~EmulatorQueue() override {
    cudaEventDestroy(event_);
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }

  /// One stream puts a number, the other copies it.
  void put_and_copy(bool waits) const {
    unit_.launch("put", {.block = 1, .stream = streams_[0]}, numbers_.data(), 5U);
    if (waits) {
      cudaEventRecord(event_, streams_[0]);
      cudaStreamWaitEvent(streams_[1], event_, 0);
    }
    unit_.launch("copy", {.block = 1, .stream = streams_[1]}, numbers_.data() + 1,
                 static_cast<const unsigned*>(numbers_.data()));
  }
  /// For how many seeds the number gets where it should.
  int times_copied(const std::function<void()>& run) const {
    int copied = 0;
    for (int seed = 1; seed <= kSeeds; ++seed) {
      emulator::set_seed(static_cast<uint64_t>(seed));
      numbers_.set({0, 0});
      run();
      EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
      EXPECT_EQ(cudaStreamSynchronize(streams_[1]), cudaSuccess);
      copied += numbers_.get() == std::vector<unsigned>{5, 5} ? 1 : 0;
    }
    return copied;
  }

  const EmulatedUnit unit_;
  const DeviceNumbers<unsigned> numbers_{{0, 0}};
  cudaStream_t streams_[2] = {};
  cudaEvent_t event_ = nullptr;
};

TEST_F(EmulatorQueue, StreamsWaitForEventsOnly) {
  EXPECT_EQ(times_copied([&] { put_and_copy(true); }), kSeeds);
  const int by_chance = times_copied([&] { put_and_copy(false); });
  EXPECT_GT(by_chance, 0);
  EXPECT_LT(by_chance, kSeeds);
}

TEST_F(EmulatorQueue, GraphsKeepTheirOrder) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal), cudaSuccess);
  put_and_copy(true);
  cudaEventRecord(event_, streams_[1]);
  cudaStreamWaitEvent(streams_[0], event_, 0);
  ASSERT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  EXPECT_EQ(numbers_.get(), (std::vector<unsigned>{0, 0}));
  EXPECT_EQ(times_copied([&] { cudaGraphLaunch(executable, streams_[0]); }), kSeeds);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST_F(EmulatorQueue, CapturesHaveToBeJoined) {
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal), cudaSuccess);
  put_and_copy(true);
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  cudaGetLastError();
}

TEST_F(EmulatorQueue, CapturesForbidToAllocateAndToWait) {
  void* memory = nullptr;
  cudaGraph_t graph = nullptr;
  for (const bool allocates : {false, true}) {
    ASSERT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeGlobal), cudaSuccess);
    EXPECT_EQ(allocates ? cudaMalloc(&memory, 16) : cudaStreamSynchronize(streams_[0]),
              cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated);
  }
  // A thread may say that it knows better.
  ASSERT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaSuccess);
  cudaThreadExchangeStreamCaptureMode(&mode);
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  cudaFree(memory);
  cudaGetLastError();
}

}  // namespace
}  // namespace rnnc::test
