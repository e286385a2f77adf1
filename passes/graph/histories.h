/// Finds states that hand on their elements from step to step, each to the place before it, with
/// one new element behind them (passes/graph/delays.h makes such), and reads earlier steps of what
/// becomes that element instead. Plans keep these as rows of steps, which nothing has to move.
///
///     state x@history: [900, I]                 state x@history: [I]
///     %0 = state x@history @ 1 : [900, I]       %0 = input x : [I]
///     %1 = index %0 at 0 : [I]            →     %1 = state x@history @ 900 : [I]
///     %2 = input x : [I]                        next x@history = %0
///     %3 = slice %0 from 1 to 900 : [899, I]
///     %4 = stack %2 : [1, I]
///     %5 = concat %3, %4 : [900, I]
///     next x@history = %5
///
/// Or the other way round, from which the last falls out, as adjoints of such do: then element i is
/// what it was i + 1 steps ago.
///
///     %3 = slice %0 from 0 to 899 : [899, I]
///     %5 = concat %4, %3 : [900, I]
///
/// With lengths, such a state stays as it is past a sequence's end. What becomes of it then takes
/// what falls out of it, and so it turns (ir/plan/state_steps.h):
///
///     %6 = valid : []                       %6 = valid : []
///     %7 = where %6, %5, %0 : [900, I]  →   %7 = where %6, %2, %1 : [I]
///     next x@history = %7                   next x@history = %7
///
/// With resets, its elements become what they start as. They need not: what an element is read for
/// looks for resets since it was new (passes/graph/sequence_features.h), or, in an adjoint, what is
/// new is zero where there is one before it is read. The state `hides`: only the caller's array has
/// those elements as they start (ir/plan/state_steps.h).
///
///     %8 = reset : []                       %8 = reset @ 899 : []
///     %9 = where %8, %init, %3 : [899, I]   %9 = where %8, %init, %1 : [I]   (as it was)
///     %5 = concat %9, %4 : [900, I]     →   next x@history = %2
///
/// A state stays as it is where its elements start as several values, change on their way, or are
/// seen past a reset. To adjoints steps may add in several places (passes/graph/history_parts.h):
/// that makes several states, each of which has a part of the caller's array.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/plan/plan.h"

namespace rnnc {

/// What of a state the caller's arrays hold: [B, count, ...], or [B, ...] if it is no history; of a
/// part, that is within the array.
struct StateSteps {
  uint32_t of = 0;     // whose array it is, where a state has a part of another's
  int64_t before = 0;  // elements of that before its own
  int64_t after = 0;   // and behind them
  int64_t count = 1;
  bool newest_first = false;  // else the earliest
  bool turns = false;         // past a sequence's end
  Hiding hiding = Hiding::None;

  /// Positions in the array.
  int64_t newest() const { return newest_first ? 0 : count - 1; }
  int64_t earliest() const { return newest_first ? count - 1 : 0; }

  /// Steps from the one that is running back to the one that the array has at `position`.
  int64_t delay_of(int64_t position) const {
    return newest_first ? position + 1 : count - position;
  }
};

/// Of each state, parts that are states now behind those that there were. Needs a bound Graph after
/// the pipeline. What reads a history's last value
/// (`Op::Final`) reads the caller's array, and has its type.
std::vector<StateSteps> make_histories(Graph& graph);

}  // namespace rnnc
