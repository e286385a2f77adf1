/// How much work a kernel is, for choosing unrolling and threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// About how many vector instructions the kernel does per vector of a row.
int64_t operations_per_vector(const Kernel& kernel);

/// Vectors per iteration: short bodies need several to hide latency, long ones are long enough.
size_t vectors_at_once(const Kernel& kernel);

/// Likewise of a loop over steps, of which each waits for the one before it: so many that others'
/// work is done meanwhile.
size_t vectors_at_once(const Kernel& kernel, const std::vector<LoopCarry>& carries);

}  // namespace rnnc
