/// States of which the caller's arrays hold several steps, [B, steps, ...] with the earliest first,
/// or last.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// How many steps of a state the caller's arrays hold: as far back as its initial values reach.
inline uint32_t steps_of(const Plan& plan, const StatePlan& state) {
  uint32_t steps = 1;
  for (const Access& access : state.init_declared.accesses) {
    if (plan.buffers[access.buffer].extent == Extent::Chunk) steps = std::max(steps, access.delay);
  }
  return steps;
}

/// Which of the caller's arrays a state begins and ends with: its own, or, of what is a part of
/// another state's history (passes/graph/history_parts.h), that of this one.
inline uint32_t slot_of(const Plan& plan, size_t state) {
  const StatePlan& of = plan.states[state];
  for (const ElementwiseLaunch* launch : {&of.init_given, &of.write_final}) {
    for (const Access& access : launch->accesses) {
      const Buffer& buffer = plan.buffers[access.buffer];
      if (buffer.placement == Placement::Caller) return buffer.slot;
    }
  }
  return static_cast<uint32_t>(state);
}

/// Of a state that is a part of an adjoint's history, steps of that behind its own, which it goes
/// on through.
inline int64_t steps_behind(const Plan& plan, const StatePlan& state) {
  for (const Access& access : state.init_given.accesses) {
    const Buffer& buffer = plan.buffers[access.buffer];
    if (!plan.descending || buffer.role != Role::InitialState) continue;
    const int64_t length = plan.kernels[state.init_given.kernel].length;
    return (buffer.width - access.column) / length - 1;
  }
  return 0;
}

/// Of a state that `turns`, a launch of one of its steps as `launches_of` has it: where sequences
/// differ in what it is of. A step past a sequence's end writes what falls out of its history back
/// into it, as the newest. So the slots hold the same steps before and after all of these, turned by
/// as many places as there were of them, and the caller's array holds them as they are at the
/// sequence's end: an ascending plan comes to that first, and its final array is turned back; a
/// descending plan comes to it last, and what it is given is turned ahead.
struct StateTurn {
  size_t caller = 0;   // the access to the caller's array
  int64_t steps = 0;   // of the history; 0: it is no such launch
  int64_t place = 0;   // of the slot: 0 is the newest
  int64_t apart = 0;   // elements of the caller's array from a place to the next older one
  bool ahead = false;  // else back

  /// Elements behind the access, for a sequence that had so many steps past its end.
  int64_t shift(int64_t past) const {
    const int64_t turned = (place + (ahead ? past % steps : steps - past % steps)) % steps;
    return (turned - place) * apart;
  }
  friend bool operator==(const StateTurn&, const StateTurn&) = default;
};

/// A state that `hiding` says has, at the sequence's end, entries that lie behind a reset, has its
/// declared value in their place in the caller's array: its history is what it would be without
/// resets, and a call that goes on does not know of those before it. So ascending plans hide in
/// their final array what `hide` then writes; descending plans in what they are given, since it
/// goes to steps before a reset.
///
/// Of how many steps before the end of sequence `row`, of so many steps, no reset hides what is
/// from there: at most `most`. What is from d steps before is behind the resets of the d - 1 steps
/// since.
inline int64_t visible_steps(Hiding hiding, const uint8_t* resets, int64_t batch, int64_t row,
                             int64_t length, int64_t most) {
  if (resets == nullptr) return most;
  for (int64_t back = 0; back + 1 < most && back < length; ++back) {
    const int64_t t = length - 1 - back;
    const int64_t at = hiding == Hiding::Resets ? t : length - t;
    const bool parts = hiding == Hiding::Resets || t > 0;
    if (parts && resets[at * batch + row] != 0) return back + 1;
  }
  return most;
}

/// Whether so many visible steps do not reach an entry, by its place in the caller's array: 0 is
/// the newest, of `count`, behind which others are. An adjoint's newest goes back to the earliest
/// step.
inline bool is_hidden(const Plan& plan, int64_t place, int64_t count, int64_t behind,
                      int64_t visible) {
  return (plan.descending ? count + behind - place : place + 1) > visible;
}

inline StateTurn turn_of(const Plan& plan, const StatePlan& state, const ElementwiseLaunch& one) {
  StateTurn turn;
  if (!state.turns) return turn;
  for (size_t i = 0; i < one.accesses.size(); ++i) {
    const Access& access = one.accesses[i];
    const Buffer& buffer = plan.buffers[access.buffer];
    const bool initial = buffer.role == Role::InitialState && plan.descending;
    const bool final = buffer.role == Role::FinalState && !plan.descending;
    if (buffer.extent == Extent::Chunk) turn.place = int64_t{access.delay} - 1;
    if (!initial && !final) continue;
    const ElementwiseLaunch& earliest = initial ? state.init_given : state.write_final;
    const int64_t length = plan.kernels[one.kernel].length;
    turn.caller = i;
    turn.steps = steps_of(plan, state);
    turn.apart = earliest.accesses[i].column > 0 ? length : -length;
    turn.ahead = initial;
  }
  return turn;
}

inline bool has_histories(const Plan& plan) {
  return std::ranges::any_of(plan.states,
                             [&](const StatePlan& state) { return steps_of(plan, state) > 1; });
}

inline bool has_hiding(const Plan& plan) {
  return std::ranges::any_of(plan.states,
                             [](const StatePlan& state) { return state.hiding != Hiding::None; });
}

inline bool has_turns(const Plan& plan) {
  return std::ranges::any_of(plan.states, &StatePlan::turns);
}

/// A launch of a state, which is of the earliest step, once for each of its steps; none if it has
/// no accesses. Batch buffers, the caller's and carries of loops, hold the steps side by side;
/// where the earliest does not come first in them it is their last.
inline std::vector<ElementwiseLaunch> launches_of(const Plan& plan, const StatePlan& state,
                                                  const ElementwiseLaunch& launch) {
  if (launch.accesses.empty()) return {};
  std::vector<ElementwiseLaunch> launches(steps_of(plan, state), launch);
  const int64_t length = plan.kernels[launch.kernel].length;
  for (uint32_t step = 0; step < launches.size(); ++step) {
    for (Access& access : launches[step].accesses) {
      const Buffer& buffer = plan.buffers[access.buffer];
      if (buffer.extent == Extent::Batch)
        access.column += (access.column > 0 ? -1 : 1) * (step * length);
      if (buffer.extent == Extent::Chunk) access.delay -= step;
    }
  }
  return launches;
}

}  // namespace rnnc
