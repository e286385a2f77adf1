/// Where the kernels of a RecurrenceLaunch's phases find each value that they load, and which
/// values stay with the threads that make them from one step to the next.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "ir/plan/plan.h"
#include "ir/plan/recurrence_sides.h"

namespace rnnc {

/// Kernels share values through registers where they can: each thread has the same elements in all
/// phases of one length.
enum class RecurrenceSource : uint8_t {
  Product,    // the block's products
  Invariant,  // memory: one value for all steps
  Memory,     // memory, at each step: of other launches, or stored here more than a step before
  Gather,     // the exchange, at each step: what other threads store
              // (ir/persistent/recurrence_gathers.h)
  Last,       // what a kernel stored last
  Before,     // what it stored before that
};

/// Elements that kernels store: a buffer and a column.
using RecurrencePlace = std::pair<BufferId, int64_t>;

/// A place whose values stay with the threads that make them. Phases are counted within the side.
struct RecurrenceCarry {
  size_t phase = 0;          // which stores it
  bool before = false;       // two steps are needed at once
  bool initial = false;      // the first step needs what was stored before the launch…
  size_t initial_phase = 0;  // …as this phase loads it
  uint32_t initial_argument = 0;
  // Where the layout puts it in shared memory, if not in registers, and the one before it.
  int64_t shared = 0;
  int64_t shared_before = 0;

  int64_t values() const { return before ? 2 : 1; }
};

/// Of one side.
struct RecurrenceSources {
  std::vector<std::vector<RecurrenceSource>> sources;  // by phase of the side, by argument
  std::map<RecurrencePlace, RecurrenceCarry> carries;
};
RecurrenceSources sources_of(const Plan& plan, std::span<const FusedLaunch> phases,
                             const RecurrenceSide& side);

}  // namespace rnnc
