/// A stage whose launches run step after step: all steps of a chunk, without a return in between.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/cpu/addresses.h"
#include "runtime/cpu/slices.h"
#include "runtime/cpu/spin_barrier.h"
#include "runtime/cpu/thread_pool.h"

namespace rnnc {

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
  /// Steps [t0, t0 + steps), those of one chunk. `pool` is null or has at least `threads()`.
  void run(ThreadPool* pool, const Addresses& addresses, const ThreadScratch& scratch, int64_t t0,
           int64_t steps);

 private:
  struct Call {
    const Addresses& addresses;
    const ThreadScratch& scratch;
    int64_t t0;
    int64_t steps;
  };
  void run_slices(const Call& call, int64_t begin, int64_t end, int thread);

  const std::vector<std::unique_ptr<PreparedLaunch>>& launches_;
  Slices slices_;
  std::optional<SpinBarrier> barrier_;
  std::vector<Access> accesses_;              // of all launches
  std::vector<size_t> first_access_;          // per launch
  std::vector<std::vector<void*>> pointers_;  // per thread, as accesses_: of the current step
  std::vector<int64_t> bytes_per_step_;       // as accesses_
};

}  // namespace rnnc
