#include "passes/tile/recurrence_tiles.h"

#include "passes/tile/recurrence_problem.h"

namespace rnnc {

Result<RecurrenceTile> choose_recurrence_tile(const Plan& plan, std::span<const FusedLaunch> phases,
                                              const Machine& machine, const TileChoice& choice) {
  if (plan.dtype == DType::f64) return fail("f64 has no kernel for it");
  return TileProblem(plan, phases, machine, choice).solve(choice.rank);
}

}  // namespace rnnc
