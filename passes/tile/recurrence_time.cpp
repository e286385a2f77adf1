#include "passes/tile/recurrence_time.h"

#include "passes/tile/recurrence_problem.h"

namespace rnnc {

RecurrenceTime time_of(const Plan& plan, const RecurrenceLaunch& launch, const Machine& machine) {
  return TileProblem::of(plan, launch, machine).time(launch.tile);
}

RecurrenceTime predicted_time(const Plan& plan, const RecurrenceLaunch& launch,
                              const Machine& machine) {
  const RecurrenceTile& tile = launch.tile;
  if (tile.step_seconds > 0) return {.start = tile.start_seconds, .step = tile.step_seconds};
  return time_of(plan, launch, machine);
}

}  // namespace rnnc
