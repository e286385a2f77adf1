// Memory that a program keeps on a GPU, when it comes from the caller.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <map>

#include "runtime/backend/backend.h"
#include "tests/emulator/emulator.h"
#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"
#include "tests/support/cells/networks.h"

namespace rnnc::test {
namespace {

constexpr int64_t kBatch = 4;
constexpr int64_t kSteps = 10;

size_t free_bytes() {
  size_t free = 0;
  size_t total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return free;
}

/// Gives memory of the emulated device and knows what it has given.
class Caller {
 public:
  DeviceAllocator allocator() { return {allocate, release, this}; }
  size_t held_bytes() const {
    size_t sum = 0;
    for (const auto& [memory, bytes] : held_) sum += bytes;
    return sum;
  }

  int calls = 0;
  int calls_until_empty = INT32_MAX;
  size_t shift = 0;  // of the addresses that it gives

 private:
  static void* allocate(void* context, size_t bytes, void* stream) {
    Caller& self = *static_cast<Caller*>(context);
    EXPECT_EQ(stream, nullptr);
    if (++self.calls > self.calls_until_empty) return nullptr;
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, bytes + self.shift), cudaSuccess);
    self.held_[memory] = bytes + self.shift;
    return static_cast<char*>(memory) + self.shift;
  }
  static void release(void* context, void* memory) {
    Caller& self = *static_cast<Caller*>(context);
    memory = static_cast<char*>(memory) - self.shift;
    EXPECT_EQ(self.held_.erase(memory), 1u);
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
  }

  std::map<void*, size_t> held_;
};

class EmulatedAllocator : public testing::Test {
 protected:
  Result<Program> compile() {
    return Program::compile(graph_, {.device = {.kind = Device::Kind::cuda, .index = 0},
                                     .chunk = 4,
                                     .allocator = caller_.allocator()});
  }

  Caller caller_;
  const size_t free_ = free_bytes();  // before anything is made
  const Graph graph_ = lstm_graph(24, 48);
};

TEST_F(EmulatedAllocator, HasAllThatAProgramKeeps) {
  {
    Result<Program> program = compile();
    ASSERT_TRUE(program) << program.error().message;
    const Status prepared = program->prepare(kBatch, kSteps);
    ASSERT_TRUE(prepared) << prepared.error().message;
    const Status trained = program->prepare_training(kBatch, kSteps);
    ASSERT_TRUE(trained) << trained.error().message;
    EXPECT_GT(caller_.held_bytes(), 0u);
    EXPECT_EQ(free_ - free_bytes(), caller_.held_bytes());
    const size_t both = caller_.held_bytes();
    ASSERT_TRUE(program->forget(kBatch));
    EXPECT_EQ(caller_.held_bytes(), 0u);
    ASSERT_TRUE(program->prepare(kBatch, kSteps));
    EXPECT_LT(caller_.held_bytes(), both);

    const InterpreterArgs args = arguments_for(graph_, kSteps, kBatch, true);
    const DeviceArguments arguments(*program, args);
    const Status ran = program->forward(arguments.on(nullptr));
    ASSERT_TRUE(ran) << ran.error().message;
    EXPECT_LE(error_of_results(arguments.results(), interpret(graph_, args)), 2e-5);

    const Result<void*> array = program->backend().allocate(100);
    ASSERT_TRUE(array) << array.error().message;
    program->backend().release(*array);
  }
  EXPECT_EQ(caller_.held_bytes(), 0u);
  EXPECT_EQ(free_bytes(), free_);
}

TEST_F(EmulatedAllocator, MayHaveNoMemory) {
  caller_.calls_until_empty = 1;
  Result<Program> program = compile();
  ASSERT_TRUE(program) << program.error().message;
  const Status prepared = program->prepare(kBatch, kSteps);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().kind, ErrorKind::OutOfMemory);
  EXPECT_TRUE(prepared.error().message.starts_with("the caller's allocator has no "))
      << prepared.error().message;
  EXPECT_EQ(caller_.held_bytes(), 0u);
}

TEST_F(EmulatedAllocator, HasToAlignMemory) {
  caller_.shift = 128;
  Result<Program> program = compile();
  ASSERT_TRUE(program) << program.error().message;
  const Status prepared = program->prepare(kBatch, kSteps);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().message,
            "the caller's allocator gave memory that is not aligned to 256 bytes");
  EXPECT_EQ(caller_.held_bytes(), 0u);
}

}  // namespace
}  // namespace rnnc::test
