/// What launches cost by the roofline: the greater of arithmetic at the machine's rate and bytes at
/// its bandwidth, and the latency of a launch.
#pragma once

#include <vector>

#include "ir/plan/plan.h"
#include "passes/options/machine.h"

namespace rnnc {

struct Cost {
  double flops = 0;    // a multiply-add is two; a transcendental function counts as 10
  double bytes = 0;    // read and written, each array once per launch
  double seconds = 0;  // predicted
  /// Arithmetic and memory alone, with data that stay in cache at its rate.
  double floor_seconds = 0;
  /// Arithmetic alone: the floor, or less where memory is the limit.
  double arithmetic_seconds = 0;
  /// The whole machine's: launches side by side take no less than theirs together. The floor, or
  /// more where a step is too short for the machine's rates.
  double machine_seconds = 0;
  /// Of the thread that makes the launches one by one.
  double submit_seconds = 0;
};

Cost& operator+=(Cost& sum, const Cost& cost);

/// For passes that compare costs before the chunk is chosen: in chunks of a usual length.
Plan with_usual_chunk(Plan plan, int64_t max_steps);

/// What of a plan wants to stay in a cache: the same for all of its launches.
class CacheUse {
 public:
  explicit CacheUse(const Plan& plan);

  /// A buffer that has come to the plan since, and that no step touches.
  void add(const Plan& plan, const Buffer& buffer);

  /// Weights that steps multiply with.
  double weight_bytes() const { return weight_bytes_; }
  /// What launches hand to each other.
  double chunk_bytes() const { return chunk_bytes_; }
  bool is_made_by_steps(BufferId id) const {
    return id < made_by_steps_.size() && made_by_steps_[id];
  }

 private:
  std::vector<bool> made_by_steps_;  // by buffer
  double weight_bytes_ = 0;
  double chunk_bytes_ = 0;
};

/// One execution of a launch of `stage`, over a full chunk where it is of domain Sequence.
Cost cost_of(const Plan& plan, const CacheUse& cache, const Stage& stage, const Launch& launch,
             const Machine& machine);
Cost cost_of(const Plan& plan, const Stage& stage, const Launch& launch, const Machine& machine);

/// One execution of all launches of a stage, one after the other.
Cost cost_of(const Plan& plan, const CacheUse& cache, const Stage& stage, const Machine& machine);
Cost cost_of(const Plan& plan, const Stage& stage, const Machine& machine);

/// A call of `steps` steps without its Once stages. On a GPU, stages side by side in a wave
/// overlap, but have one machine together.
Cost cost_of(const Plan& plan, int64_t steps, const Machine& machine);

/// What parting into streams and joining them adds to each wave of a sweep whose resident
/// recurrences have several lags.
double fork_seconds(const Plan& plan, uint32_t sweep, const Machine& machine);

}  // namespace rnnc
