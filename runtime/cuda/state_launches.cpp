#include "runtime/cuda/state_launches.h"

#include "ir/plan/state_steps.h"

namespace rnnc::cuda {

StateLaunches::StateLaunches(const Plan& plan) : plan_(plan) {
  for (const StatePlan& state : plan.states) {
    states_.push_back(
        {launches_of(plan, state, state.init_given), launches_of(plan, state, state.init_declared),
         launches_of(plan, state, state.write_final), launches_of(plan, state, state.hide)});
    most_ += steps_of(plan, state) + states_.back().hide.size();
  }
}

void StateLaunches::append_begin(size_t index, bool given, bool resets, LaunchPosition position,
                                 std::vector<StateLaunch>& launches) const {
  const OfState& state = states_[index];
  const bool hides = given && resets && plan_.descending && !state.hide.empty();
  append(index, given ? state.given : state.declared,
         hides ? CudaEntries::Visible : CudaEntries::All, position, launches);
  if (hides) append(index, state.hide, CudaEntries::Hidden, position, launches);
}

void StateLaunches::append_end(size_t index, bool resets, LaunchPosition position,
                               std::vector<StateLaunch>& launches) const {
  const OfState& state = states_[index];
  const bool hides = resets && !plan_.descending && !state.hide.empty();
  append(index, state.final, hides ? CudaEntries::Visible : CudaEntries::All, position, launches);
  if (hides) append(index, state.hide, CudaEntries::Hidden, position, launches);
}

void StateLaunches::append(size_t index, const Steps& steps, CudaEntries entries,
                           LaunchPosition position, std::vector<StateLaunch>& launches) const {
  const StatePlan& state = plan_.states[index];
  auto place = static_cast<int64_t>(steps.size());
  for (const ElementwiseLaunch& launch : steps) {
    // What hides entries of the caller's array does so where they are, and not where they come
    // from.
    const bool turns = entries != CudaEntries::Hidden;
    launches.push_back({.launch = &launch,
                        .position = position,
                        .turn = turns ? turn_of(plan_, state, launch) : StateTurn{},
                        .state = &state,
                        .entries = entries,
                        .place = --place});
  }
}

}  // namespace rnnc::cuda
