#include "runtime/cpu/thread_pool.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <limits>
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

void check_rounds(ThreadPool& pool, int64_t units, int rounds) {
  const int threads = pool.threads();
  SCOPED_TRACE(threads);
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

void check_pools(std::optional<OpenMp> openmp) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads, openmp);
    ASSERT_EQ(pool.threads(), threads);
    check_rounds(pool, 7, 2000);
  }
  ThreadPool pool(3, openmp);
  check_rounds(pool, 1, 500);
  check_rounds(pool, 100, 200);
}

TEST(ThreadPool, EveryUnitIsComputedOnce) {
  check_pools({});
}

// GCC's runtime, as PyTorch loads it.
class OpenMpPool : public testing::Test {
 protected:
  void SetUp() override {
    if (::dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) GTEST_SKIP() << ::dlerror();
    openmp_ = OpenMp::of_process();
    ASSERT_TRUE(openmp_);
  }
  std::optional<OpenMp> openmp_;
};

TEST_F(OpenMpPool, EveryUnitIsComputedOnce) {
  check_pools(openmp_);
}

TEST_F(OpenMpPool, ItsThreadsDoTheWork) {
  ThreadPool pool(3, openmp_);
  const auto number = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "omp_get_num_threads"));
  std::vector<int> team(3);
  pool.run(3, [&](int64_t unit, int) { team[unit] = number(); });
  EXPECT_EQ(team, std::vector<int>(3, 3));
}

TEST_F(OpenMpPool, SubnormalsAreFlushedThereAndNotAfterwards) {
  ThreadPool pool(2, openmp_);
  const volatile float least = std::numeric_limits<float>::min();
  std::vector<float> halves(2, -1);
  pool.run(2, [&](int64_t unit, int) { halves[unit] = least / 2; });
  EXPECT_EQ(halves, std::vector<float>(2, 0.0F));
  const auto halve = [](void* context, int thread) {
    const volatile float value = std::numeric_limits<float>::min();
    static_cast<float*>(context)[thread] = value / 2;
  };
  ASSERT_TRUE(openmp_->run(2, halve, halves.data()));
  EXPECT_GT(halves[0], 0);
  EXPECT_GT(halves[1], 0);
}

// A region within a region has one thread; units that wait for one another need all.
TEST_F(OpenMpPool, OwnThreadsWorkWhereItGivesTooFew) {
  ThreadPool pool(3, openmp_);
  std::atomic<int> arrived = 0;
  const auto meet = [&](int64_t, int) {
    ++arrived;
    while (arrived.load() < 3) std::this_thread::yield();
  };
  struct Call {
    ThreadPool& pool;
    const decltype(meet)& work;
  } call = {pool, meet};
  ASSERT_TRUE(openmp_->run(
      2,
      [](void* context, int thread) {
        const auto& own = *static_cast<Call*>(context);
        if (thread == 0) own.pool.run(3, own.work);
      },
      &call));
  EXPECT_EQ(arrived, 3);
  check_rounds(pool, 7, 500);  // then it gives enough
}

TEST_F(OpenMpPool, AForkedProcessHasNone) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(OpenMp::of_process() ? 1 : 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(OpenMp::of_process());
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
