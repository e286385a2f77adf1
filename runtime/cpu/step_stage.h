/// A stage whose launches run step after step: all steps of a chunk, without a return in between.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/cpu/addresses.h"
#include "runtime/cpu/slices.h"
#include "runtime/cpu/spin_barrier.h"
#include "runtime/cpu/thread_pool.h"

namespace rnnc::cpu {

/// Scratch memory of threads.
struct ThreadScratch {
  std::byte* data = nullptr;
  int64_t bytes_per_thread = 0;
  std::byte* of(int thread) const { return data + thread * bytes_per_thread; }
};

class StepStage {
 public:
  /// For at most `threads` threads. `plan`, `stage` and `launches` outlive this.
  StepStage(const Plan& plan, const Stage& stage,
            const std::vector<std::unique_ptr<PreparedLaunch>>& launches, int64_t lanes,
            int threads);

  /// Threads that it can use.
  int threads() const;
  /// So many steps from `start` on, those of one chunk. A pool has at least `threads()`; without
  /// one several stages may run at a time, each on a thread of its own.
  void run(const Crew& crew, const Addresses& addresses, const ThreadScratch& scratch,
           Position start, int64_t steps);
  /// Estimated nanoseconds of a step: on one thread, and on all that it can use.
  double step_alone() const { return step_alone_; }
  double step_shared() const { return step_shared_; }

 private:
  struct Run {
    const Addresses& addresses;
    const ThreadScratch& scratch;
    Position start;
    int64_t steps;
  };
  void run_slice(const Slices& slices, const Run& run, int64_t slice, int thread);

  const std::vector<std::unique_ptr<PreparedLaunch>>& launches_;
  Slices slices_;
  Slices whole_;  // one slice
  double step_alone_ = 0;
  double step_shared_ = 0;
  std::optional<SpinBarrier> barrier_;
  std::vector<Access> accesses_;              // of all launches
  std::vector<size_t> first_access_;          // per launch
  std::vector<std::vector<void*>> pointers_;  // per thread, as accesses_: of the current step
  std::vector<int64_t> bytes_per_step_;       // as accesses_
};

}  // namespace rnnc::cpu
