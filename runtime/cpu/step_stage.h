/// A stage whose launches run step after step: all steps of a chunk, without a return in between.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/cpu/chunk_stage.h"
#include "runtime/cpu/slices.h"
#include "runtime/cpu/spin_barrier.h"

namespace rnnc::cpu {

/// Whether slices that wait for one another are worth their threads just now. Where other work has
/// the processors too, each wait is for a thread's turn: milliseconds instead of one.
class Sharing {
 public:
  /// Steps of one thread that tell how long it takes.
  static constexpr int64_t kTrialSteps = 8;

  /// Whether the next steps are better done by one thread, or tried so.
  bool is_off() const { return alone_ > 0; }
  /// So many steps were shared, in so many nanoseconds each; of `late` the mean slice had to wait
  /// long. Sharing stays on if one thread was slower still when that was last tried; what a late
  /// run took counts as much as the runs before it, lest an accident in a fast one decides.
  void shared(int64_t steps, int64_t late, double nanoseconds);
  /// Steps were done by one thread, since sharing is off.
  void alone(double nanoseconds);

 private:
  static constexpr int64_t kFewSteps = 8;  // one of so many may be late
  static constexpr int kFewTimes = 4;
  static constexpr int kManyTimes = 1024;

  int alone_ = 0;  // times that sharing is off
  int next_alone_ = kFewTimes;
  double shared_nanoseconds_ = 0;  // of late runs the geometric mean with those before
  double alone_nanoseconds_ = 0;   // as last measured; nothing is known at first
};

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
  /// Steps of which it had to wait long for other slices.
  int64_t run_slice(const Slices& slices, const Run& run, int64_t slice, int thread);

  const std::vector<std::unique_ptr<PreparedLaunch>>& launches_;
  Slices slices_;
  Slices whole_;  // one slice
  std::optional<SpinBarrier> barrier_;
  Sharing sharing_;
  std::vector<Access> accesses_;              // of all launches
  std::vector<size_t> first_access_;          // per launch
  std::vector<std::vector<void*>> pointers_;  // per thread, as accesses_: of the current step
  std::vector<int64_t> bytes_per_step_;       // as accesses_
};

}  // namespace rnnc::cpu
