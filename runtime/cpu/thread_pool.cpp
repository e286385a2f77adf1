#include "runtime/cpu/thread_pool.h"

#include <system_error>

namespace rnnc {
namespace {

constexpr uint64_t kThreadsMask = 0xffff;
constexpr uint64_t kNextRound = kThreadsMask + 1;

/// About 50 microseconds between two pieces of work, and as long at a barrier before the processor
/// is offered to others: with more threads than processors the one we wait for may need it.
constexpr int kSpins = 2000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  workers_.reserve(threads - 1);
  for (int thread = 1; thread < threads; ++thread) {
    try {
      workers_.emplace_back([this, thread] { serve(thread); });
    } catch (const std::system_error&) {
      break;  // the system has no more threads for us; results do not depend on their number
    }
  }
}

ThreadPool::~ThreadPool() {
  const uint64_t last = round_.load(std::memory_order_relaxed);
  round_.store((last | kThreadsMask) + 1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(int threads, Work work, void* context) {
  work_ = work;
  context_ = context;
  running_ = threads;
  if (threads > 1) {
    const uint64_t last = round_.load(std::memory_order_relaxed) & ~kThreadsMask;
    round_.store(last + kNextRound + threads, std::memory_order_release);
    round_.notify_all();
  }
  work(context, 0);
  barrier();
}

void ThreadPool::barrier() {
  const uint32_t seen = barriers_.load(std::memory_order_relaxed);
  const int running = running_;  // before arriving: afterwards the next round may be set up
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == running) {
    arrived_.store(0, std::memory_order_relaxed);
    barriers_.store(seen + 1, std::memory_order_release);
    return;
  }
  for (int spins = 0; barriers_.load(std::memory_order_acquire) == seen; ++spins) {
    if (spins < kSpins) {
      relax();
    } else {
      std::this_thread::yield();
    }
  }
}

uint64_t ThreadPool::next_round(uint64_t last) {
  for (int spins = 0; spins < kSpins; ++spins) {
    const uint64_t round = round_.load(std::memory_order_acquire);
    if (round != last) return round;
    relax();
  }
  round_.wait(last, std::memory_order_acquire);
  return round_.load(std::memory_order_acquire);
}

void ThreadPool::serve(int thread) {
  for (uint64_t round = 0;;) {
    round = next_round(round);
    const auto threads = static_cast<int>(round & kThreadsMask);
    if (threads == 0) return;
    if (thread >= threads) continue;
    work_(context_, thread);
    barrier();
  }
}

}  // namespace rnnc
