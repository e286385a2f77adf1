#include "runtime/cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <numeric>

#include "runtime/base/held_signals.h"

namespace rnnc::test {
using namespace cpu;

namespace {

struct Sums {
  std::vector<int64_t> before;
  std::vector<int64_t> after;
  std::vector<int> threads;  // who computed which
};

/// Unit i: the sum of everything before, plus i. A lost, doubled or early unit shows in the sums.
void add_all(const void* context, int64_t unit, int thread) {
  auto& sums = *static_cast<Sums*>(const_cast<void*>(context));
  const int64_t sum = std::accumulate(sums.before.begin(), sums.before.end(), int64_t{0});
  sums.after[unit] += sum % 1000003 + unit;
  sums.threads[unit] = thread;
}

void check_rounds(int threads, int64_t units, int rounds) {
  SCOPED_TRACE(threads);
  ThreadPool pool(threads);
  ASSERT_EQ(pool.threads(), threads);
  Sums sums{std::vector<int64_t>(units, 1), std::vector<int64_t>(units),
            std::vector<int>(units, -1)};
  for (int round = 0; round < rounds; ++round) {
    // Long enough for the workers to fall asleep.
    if (round % 64 == 63) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const int64_t sum = std::accumulate(sums.before.begin(), sums.before.end(), int64_t{0});
    std::fill(sums.after.begin(), sums.after.end(), 0);
    pool.run(units, add_all, &sums);
    for (int64_t unit = 0; unit < units; ++unit) {
      ASSERT_EQ(sums.after[unit], sum % 1000003 + unit) << "round " << round << " unit " << unit;
      ASSERT_GE(sums.threads[unit], 0);
      ASSERT_LT(sums.threads[unit], threads);
    }
    std::swap(sums.before, sums.after);
  }
}

TEST(ThreadPool, EveryUnitIsComputedOnce) {
  for (const int threads : {1, 2, 3, 5}) check_rounds(threads, 7, 2000);
  check_rounds(3, 1, 500);
  check_rounds(3, 100, 200);
}

TEST(ThreadPool, WorkOfDifferentSizesFollowsAtOnce) {
  ThreadPool pool(4);
  std::atomic<int64_t> count = 0;
  int64_t expected = 0;
  for (int64_t round = 0; round < 3000; ++round) {
    const int64_t units = 1 + round * 7 % 23;
    expected += units;
    pool.run(
        units,
        [](const void* context, int64_t, int) {
          ++*static_cast<std::atomic<int64_t>*>(const_cast<void*>(context));
        },
        &count);
    ASSERT_EQ(count, expected) << "round " << round;
  }
}

TEST(ThreadPool, StopsWithoutEverWorking) {
  ThreadPool pool(4);
}

TEST(ThreadPool, SignalsAreForTheProgramsOwnThreads) {
  const ThreadPool pool(4);
  const HeldSignals held;
  // A worker that took it would end the process.
  ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
  sigset_t pending;
  ::sigpending(&pending);
  EXPECT_EQ(::sigismember(&pending, SIGUSR1), 1);
  sigset_t sent;
  ::sigemptyset(&sent);
  ::sigaddset(&sent, SIGUSR1);
  const timespec now = {};
  EXPECT_EQ(::sigtimedwait(&sent, nullptr, &now), SIGUSR1);
}

}  // namespace
}  // namespace rnnc::test
