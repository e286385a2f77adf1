/// The parts of `verify(const Plan&)` that stand by themselves.
#pragma once

#include "ir/plan/plan.h"

namespace rnnc {

/// Operands come earlier, arguments are in range and used once and one way.
Status verify_kernel(const Kernel& kernel);

/// The kernel has room for the arrays of all phases, whatever the tile.
Status verify_arrays(const Plan& plan, const RecurrenceLaunch& launch);

/// The tile fits the phases, which hand values to each other only as ir/plan/plan.h says. Each of
/// them is a good fused launch.
Status verify_recurrence(const Plan& plan, const RecurrenceLaunch& launch);

/// Offsets are aligned and inside the plan's sizes. No two buffers share memory of which one lives
/// on between waves, or which launches that may run side by side touch, or one launch, unless it
/// writes each element in place of what it has read.
Status verify_memory(const Plan& plan);

}  // namespace rnnc
