/// What kernels of a RecurrenceLaunch load of elements that other threads store: those of phases of
/// another length, or of another place in the row. Blocks hand them to each other one by one.
#pragma once

#include <span>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// Whether an argument of a phase's kernel is loaded so: if not, each of its elements is stored by
/// the thread that loads it, or by no phase.
bool is_gathered(const Plan& plan, std::span<const FusedLaunch> phases, size_t phase,
                 size_t argument);

/// A part of a buffer's rows that is loaded so, by one side.
struct RecurrenceGather {
  BufferId buffer = kNoBuffer;
  int64_t column = 0;
  int64_t width = 0;
  size_t side = 0;

  bool holds(const Access& access, int64_t count) const {
    return access.buffer == buffer && access.column < column + width &&
           column < access.column + count;
  }
};

/// One of each buffer, in the order of the phases that load. `sides`: as in RecurrenceTile.
std::vector<RecurrenceGather> gathers_of(const Plan& plan, std::span<const FusedLaunch> phases,
                                         std::span<const size_t> sides);

}  // namespace rnnc
