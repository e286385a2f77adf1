#include "runtime/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>

namespace rnnc::test {
namespace {

struct Rounds {
  ThreadPool* pool;
  std::vector<int64_t> values;  // one per thread
};

/// Every thread adds what all had before the barrier; any step out of order shows in the sums.
void add_all(void* context, int thread) {
  auto& rounds = *static_cast<Rounds*>(context);
  for (int i = 0; i < 20; ++i) {
    int64_t sum = 0;
    for (const int64_t value : rounds.values) sum += value;
    rounds.pool->barrier();
    rounds.values[thread] = sum % 1000003 + thread;
    rounds.pool->barrier();
  }
}

TEST(ThreadPool, BarriersKeepThreadsInStep) {
  constexpr int kThreads = 3;
  ThreadPool pool(kThreads);
  ASSERT_EQ(pool.threads(), kThreads);
  Rounds rounds{&pool, {1, 2, 3}};
  std::vector<int64_t> expected = rounds.values;
  for (int run = 0; run < 50; ++run) {
    pool.run(kThreads, add_all, &rounds);
    if (run % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // workers sleep
    for (int i = 0; i < 20; ++i) {
      const int64_t sum = expected[0] + expected[1] + expected[2];
      for (int thread = 0; thread < kThreads; ++thread) expected[thread] = sum % 1000003 + thread;
    }
    ASSERT_EQ(rounds.values, expected) << "run " << run;
  }
}

TEST(ThreadPool, OneThreadStartsNone) {
  ThreadPool pool(1);
  EXPECT_EQ(pool.threads(), 1);
  int calls = 0;
  pool.run(1, [](void* context, int) { ++*static_cast<int*>(context); }, &calls);
  EXPECT_EQ(calls, 1);
}

TEST(ThreadPool, RoundsMayHaveFewerThreads) {
  ThreadPool pool(4);
  for (int run = 0; run < 400; ++run) {
    const int threads = 1 + run % 4;
    std::array<std::atomic<int>, 4> calls = {};
    pool.run(
        threads,
        [](void* context, int thread) {
          ++(*static_cast<std::array<std::atomic<int>, 4>*>(context))[thread];
        },
        &calls);
    for (int thread = 0; thread < 4; ++thread) {
      ASSERT_EQ(calls[thread], thread < threads ? 1 : 0) << "run " << run << " thread " << thread;
    }
  }
}

TEST(ThreadPool, StopsWithoutEverWorking) {
  ThreadPool pool(4);
}

}  // namespace
}  // namespace rnnc::test
