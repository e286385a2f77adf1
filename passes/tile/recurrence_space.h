/// The tiles that a recurrence can have: variables of an integer problem, and the footprint
/// (ir/persistent/recurrence_footprint.h) that they make, as expressions over them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/persistent/recurrence_footprint.h"
#include "passes/options/machine.h"
#include "passes/solver/integer_problem.h"
#include "passes/tile/recurrence_tiles.h"

namespace rnnc {

/// What a tile is made of. As TileNumbers has them.
struct TileVariables {
  IntegerVariable groups, warps, k_warps, k_blocks, rows;
  IntegerVariable split, streams, clusters, own_sums;  // 0 or 1
  std::vector<IntegerVariable> units;                  // by phase: one for all of a length
  int64_t lengths = 0;                                 // different ones of phases
};

/// `machine` outlives this.
struct TileSpace {
  TileSpace(const Plan& plan, std::span<const FusedLaunch> launch_phases, const Machine& machine,
            const TileChoice& choice);

  const RecurrenceShape& shape() const { return footprint.shape; }
  bool opens_side(size_t phase) const;
  /// That which has the tile's numbers.
  Solution solution_of(const RecurrenceTile& tile) const;

  const Machine& machine;
  int64_t machine_units;  // that there are for it
  IntegerProblem problem;
  TileVariables variables;
  RecurrenceFootprint<IntegerExpression> footprint;
  std::vector<bool> unlike;      // by phase (unlike_sides)
  bool all_share_k;              // or gates could not be shared
  IntegerExpression blocks = 1;  // of a group

 private:
  TileSpace(RecurrenceShape of_shape, const Plan& plan, std::span<const FusedLaunch> launch_phases,
            const Machine& machine, const TileChoice& choice);
  TileVariables name_variables(const RecurrenceShape& of_shape, const Plan& plan,
                               std::span<const FusedLaunch> launch_phases,
                               const TileChoice& choice);
};

}  // namespace rnnc
