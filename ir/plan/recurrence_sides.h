/// The sides of a RecurrenceLaunch: phases that blocks of their own run. A recurrence alone has
/// one, a stack of layers one for each.
#pragma once

#include <span>

#include "ir/plan/plan.h"

namespace rnnc {

/// A side's phases: [begin, end) of the launch's.
struct RecurrenceSide {
  size_t begin = 0;
  size_t end = 0;
};

/// Of a launch of `phases` phases.
RecurrenceSide side_at(std::span<const size_t> sides, size_t side, size_t phases);

/// Which one a phase is of. `sides`: as in RecurrenceTile.
size_t side_of(std::span<const size_t> sides, size_t phase);

/// Of all sides and groups: so many run at the same time.
int64_t all_blocks(const RecurrenceTile& tile);

}  // namespace rnnc
