#include "tests/gpu/unhindered.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace rnnc::test {

void expect_neither_waits_nor_allocates(cudaStream_t stream, const std::function<Status()>& work) {
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  size_t free_before = 0;
  size_t free_after = 0;
  size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_before, &total), cudaSuccess);

  // The stream stands still until `open`: work that waits for it would not come back before the
  // helper opens it.
  std::atomic<bool> open = false;
  std::atomic<bool> opened_late = false;
  const auto block = [](void* flag) {
    while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
  };
  ASSERT_EQ(cudaLaunchHostFunc(stream, block, &open), cudaSuccess);
  std::thread helper([&] {
    for (int i = 0; i < 1000 && !open; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    opened_late = !open;
    open = true;
  });
  const Status ran = work();
  open = true;
  helper.join();
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  EXPECT_FALSE(opened_late) << "a call waited for the stream";
  ASSERT_EQ(cudaMemGetInfo(&free_after, &total), cudaSuccess);
  EXPECT_EQ(free_after, free_before) << "the first calls allocated";
}

}  // namespace rnnc::test
