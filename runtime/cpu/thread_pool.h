/// A few threads that run one function together, meeting at barriers.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace rnnc {

/// Workers spin for a short while after a piece of work, since the next one usually follows at
/// once, and then sleep. Not for use from several threads at once.
class ThreadPool {
 public:
  using Work = void (*)(void* context, int thread);

  /// The caller of `run` is one of the `threads`; the others are started here. If the system gives
  /// fewer, `threads()` says how many there are.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls work(context, i) on `threads` threads i, the caller being thread 0. Returns when all are
  /// done. Allocates nothing.
  void run(int threads, Work work, void* context);

  /// Inside `run`, on every one of its threads: returns when all have called it. What they wrote
  /// before is then seen by all.
  void barrier();

 private:
  void serve(int thread);
  uint64_t next_round(uint64_t last);

  Work work_ = nullptr;
  void* context_ = nullptr;
  int running_ = 1;  // threads of the current round
  /// Number of the round and, in the low bits, its threads; no threads: the end. In one word, since
  /// a worker that sleeps through a round may read it while the next one is being set up.
  alignas(64) std::atomic<uint64_t> round_ = 0;
  alignas(64) std::atomic<int> arrived_ = 0;
  alignas(64) std::atomic<uint32_t> barriers_ = 0;
  std::vector<std::thread> workers_;
};

}  // namespace rnnc
