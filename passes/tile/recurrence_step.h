/// How long a step of a recurrence takes, by a model, as an expression over the space of tiles: so
/// the search for the best can bound it.
#pragma once

#include "passes/tile/recurrence_memory.h"
#include "passes/tile/recurrence_space.h"

namespace rnnc {

inline constexpr double kTicks = 1e15;  // of a second: time is counted in whole ones

IntegerExpression ticks_of_step(const TileSpace& space, const TileMemory& memory);

}  // namespace rnnc
