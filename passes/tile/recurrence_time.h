/// How long a recurrence takes with its tile, by a model calibrated on an H200
/// (passes/tile/recurrence_step.cpp).
#pragma once

#include "ir/plan/plan.h"
#include "passes/options/machine.h"

namespace rnnc {

/// In seconds.
struct RecurrenceTime {
  double start = 0;  // until all weights are where they stay, and all sides at work
  double step = 0;
};
RecurrenceTime time_of(const Plan& plan, const RecurrenceLaunch& launch, const Machine& machine);
/// The same, as it was when the tile was chosen if it was: without the model.
RecurrenceTime predicted_time(const Plan& plan, const RecurrenceLaunch& launch,
                              const Machine& machine);

}  // namespace rnnc
