#include "passes/tile/recurrence_needs.h"

#include "passes/tile/recurrence_problem.h"

namespace rnnc {

TileNeeds needs_of(const Plan& plan, const RecurrenceLaunch& launch, const Machine& machine) {
  return TileProblem::of(plan, launch, machine).needs(launch.tile);
}

}  // namespace rnnc
