/// A stage whose launches run step after step: all steps of a chunk, without a return in between.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/cpu/chunk_stage.h"
#include "runtime/cpu/slices.h"
#include "runtime/cpu/spin_barrier.h"

namespace rnnc::cpu {

class StepStage : public ChunkStage {
 public:
  /// For at most `threads` threads. `plan`, `stage` and `launches` outlive this.
  StepStage(const Plan& plan, const Stage& stage,
            const std::vector<std::unique_ptr<PreparedLaunch>>& launches, int64_t lanes,
            int threads);

  int threads() const override;
  void run(const Crew& crew, const Addresses& addresses, const ThreadScratch& scratch,
           Position start, int64_t steps) override;

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
  std::optional<SpinBarrier> barrier_;
  std::vector<Access> accesses_;              // of all launches
  std::vector<size_t> first_access_;          // per launch
  std::vector<std::vector<void*>> pointers_;  // per thread, as accesses_: of the current step
  std::vector<int64_t> bytes_per_step_;       // as accesses_
};

}  // namespace rnnc::cpu
