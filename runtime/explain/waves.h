/// When each stage is at which chunk: the run of a plan as ir/plan/plan.h describes it, on a clock
/// of predicted times.
#pragma once

#include <vector>

#include "ir/plan/plan.h"
#include "passes/cost/cost.h"

namespace rnnc::explain {

struct Waves {
  /// One stage at one chunk.
  struct Bar {
    uint32_t stage = 0;  // index into Plan::stages
    uint32_t wave = 0;   // counted through all sweeps
    int64_t chunk = 0;
    double start = 0;  // seconds since the first wave began
    double seconds = 0;
  };
  int64_t chunks = 0;
  int64_t total = 0;  // waves of all sweeps
  uint32_t lags = 0;  // the greatest
  std::vector<Bar> bars;
  bool cut = false;  // there are more than `kMostBars`, and only the first waves are here
  static constexpr size_t kMostBars = 2000;
};

/// `costs`: of each stage, its launches run once. Stages of one lag run one after the other but for
/// those that passes/cost/side_by_side.h finds, different lags side by side, and all that run side
/// by side share the machine.
Waves run_waves(const Plan& plan, const std::vector<Cost>& costs, int64_t steps,
                const Machine& machine);

}  // namespace rnnc::explain
