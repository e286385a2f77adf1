/// A shape's plan, compiled: what calls of it run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/program/choose_plan.h"

namespace rnnc {

/// What calls of one batch size with the same features need. The plan depends on these and the
/// chunk alone, but for one of a single step, so that a longer sequence needs another one only if
/// its chunk differs.
struct PreparedShape {
  int64_t max_steps = 0;
  int64_t chunk = 0;  // of the plan that was asked for
  ChosenPlan chosen;
  std::unique_ptr<Executable> executable;
  uint64_t loaded_params = 0;  // those of a program's calls that the Once stages ran on
  // One each.
  std::vector<const void*> initial_states;  // of the call that runs

  /// Room to align it included.
  size_t workspace_bytes(int64_t steps) const;
  /// Runs a call on the params that a program counts as `params`.
  Status run(const Call& call, uint64_t params);
};

/// Makes `plan`, or what the device takes in its place, ready to run. Measures others
/// before, if the options ask for it.
Result<PreparedShape> prepare_shape(const ShapePlanner& of_shape, Plan plan, Backend& backend,
                                    const KernelCache& cache);

/// A history of a state, with the values before the one that the state itself starts as, is given
/// where that state is.
Status check_given_histories(const Graph& graph, const std::function<bool(size_t)>& given);

/// What each state starts as, into `chosen`: a delay of a state that is given starts as that state
/// does, unless it is given too.
void choose_initial_states(const Graph& graph, std::span<const void* const> given,
                           std::vector<const void*>& chosen);

}  // namespace rnnc
