/// The choice of a recurrence's tile as an integer problem (passes/solver/integer_problem.h), and
/// what the model knows of any of its solutions.
#pragma once

#include "ir/persistent/recurrence_inputs.h"
#include "passes/tile/recurrence_memory.h"
#include "passes/tile/recurrence_needs.h"
#include "passes/tile/recurrence_space.h"
#include "passes/tile/recurrence_tiles.h"
#include "passes/tile/recurrence_time.h"

namespace rnnc {

/// `plan`, `phases` and `machine` outlive this.
class TileProblem {
 public:
  TileProblem(const Plan& plan, std::span<const FusedLaunch> phases, const Machine& machine,
              const TileChoice& choice);

  /// That which has the launch's tile among its solutions.
  static TileProblem of(const Plan& plan, const RecurrenceLaunch& launch, const Machine& machine);

  Result<RecurrenceTile> solve(int64_t rank) const;

  TileNeeds needs(const RecurrenceTile& tile) const;
  RecurrenceTime time(const RecurrenceTile& tile) const;

 private:
  Status check_strategy() const;
  void require_tile();
  void require_strategy();
  void require_clusters();
  void require_blocks_along_k();
  void require_room();
  std::string reason_of(Strategy strategy, std::string reason) const;
  IntegerExpression clusters_at_once() const;
  IntegerExpression cut_rows() const;
  IntegerExpression ticks_of_start() const;
  RecurrenceTile tile_of(const Solution& solution) const;
  RecurrenceInputs inputs(const RecurrenceTile& tile) const;
  int64_t input_steps(const RecurrenceTile& tile, const Solution& solution) const;
  RecurrenceTime time(const Solution& solution) const;

  const Plan& plan_;
  std::span<const FusedLaunch> launch_phases_;
  Strategy strategy_;
  bool one_step_;
  TileSpace space_;
  TileMemory memory_;
  IntegerExpression time_;  // of a step, in ticks
};

}  // namespace rnnc
