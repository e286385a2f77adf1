/// A stage that goes through all steps of a chunk at once, by its own means.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/plan/waves.h"
#include "runtime/backend/launch_times.h"
#include "runtime/cpu/addresses.h"
#include "runtime/cpu/thread_pool.h"

namespace rnnc::cpu {

/// Scratch memory of threads.
struct ThreadScratch {
  std::byte* data = nullptr;
  int64_t bytes_per_thread = 0;
  std::byte* of(int thread) const { return data + thread * bytes_per_thread; }
};

class ChunkStage {
 public:
  virtual ~ChunkStage() = default;
  ChunkStage(const ChunkStage&) = delete;
  ChunkStage& operator=(const ChunkStage&) = delete;

  /// Threads that it can use.
  virtual int threads() const = 0;
  /// Memory of its own, which it has before it runs.
  virtual int64_t memory_bytes() const { return 0; }
  virtual void use_memory(std::byte* /*memory*/) {}
  /// So many steps from `start` on, those of one chunk. A pool has at least `threads()`; without
  /// one several stages may run at a time, each on a thread of its own.
  virtual void run(const Crew& crew, const Addresses& addresses, const ThreadScratch& scratch,
                   Position start, int64_t steps) = 0;
  /// Of calls from now on, the launches of stage `stage`: all of them together, or at each step if
  /// they are several. Null: none.
  void record(LaunchTimes* times, size_t stage) {
    times_ = times;
    stage_ = stage;
  }
  /// Estimated nanoseconds of a step: on one thread, and on all that it can use.
  double step_alone() const { return step_alone_; }
  double step_shared() const { return step_shared_; }

 protected:
  ChunkStage() = default;
  double step_alone_ = 0;
  double step_shared_ = 0;
  LaunchTimes* times_ = nullptr;
  size_t stage_ = 0;
};

}  // namespace rnnc::cpu
