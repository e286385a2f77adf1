#include "runtime/cpu/spin_barrier.h"

#include <gtest/gtest.h>

namespace rnnc::test {
using namespace cpu;

namespace {

/// Every thread counts rounds in a plain integer, which the others read after the barrier.
void check_rounds(int threads, int rounds) {
  SCOPED_TRACE(threads);
  SpinBarrier barrier(threads);
  std::vector<int> counts(threads);
  std::vector<int> wrong(threads);
  const auto work = [&](int thread) {
    for (int round = 1; round <= rounds; ++round) {
      counts[thread] = round;
      barrier.wait(thread);
      for (const int count : counts) wrong[thread] += count != round ? 1 : 0;
      barrier.wait(thread);
    }
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
  work(0);
  for (std::thread& other : others) other.join();
  EXPECT_EQ(wrong, std::vector<int>(threads));
}

TEST(SpinBarrier, AllArriveBeforeAnyGoesOn) {
  check_rounds(1, 10);
  check_rounds(2, 5000);
  // More than there may be processors: those that wait must let the others run.
  check_rounds(5, 500);
  check_rounds(9, 100);
}

}  // namespace
}  // namespace rnnc::test
