/// Where the threads of a stage wait for one another between two launches.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace rnnc::cpu {

/// Tells the processor that this thread only waits.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Each thread counts its arrivals in a cache line of its own, which the others read: between two
/// cores that is one transfer each way. Where a thread has no processor, those that wait for it
/// give theirs up.
class SpinBarrier {
 public:
  explicit SpinBarrier(int threads) : arrivals_(threads) {}

  /// Returns when all threads have called it as often as this one. What each wrote before, all see.
  /// False if it took longer than threads need that all have a processor.
  bool wait(int thread) {
    bool in_time = true;
    std::atomic<uint64_t>& own = arrivals_[thread].count;
    const uint64_t round = own.load(std::memory_order_relaxed) + 1;
    own.store(round, std::memory_order_release);
    for (const Arrivals& other : arrivals_) {
      for (int spins = 0; other.count.load(std::memory_order_acquire) < round; ++spins) {
        if (spins < kSpins) {
          relax();
        } else {
          in_time = false;
          std::this_thread::yield();
        }
      }
    }
    return in_time;
  }

 private:
  static constexpr int kSpins = 2000;  // some tens of microseconds
  /// Two lines, since processors fetch them in pairs.
  struct alignas(128) Arrivals {
    std::atomic<uint64_t> count = 0;
  };
  std::vector<Arrivals> arrivals_;
};

}  // namespace rnnc::cpu
