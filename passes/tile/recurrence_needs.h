/// What the tile of a recurrence takes of the machine.
#pragma once

#include "ir/plan/plan.h"
#include "passes/options/machine.h"

namespace rnnc {

/// Of each unit that has a block.
struct TileNeeds {
  int64_t registers = 0;     // of a thread
  int64_t shared_bytes = 0;  // of them, weights:
  int64_t weights_in_shared = 0;
};
TileNeeds needs_of(const Plan& plan, const RecurrenceLaunch& launch, const Machine& machine);

}  // namespace rnnc
