/// How much work a kernel is, for choosing unrolling and threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/plan/plan.h"

namespace rnnc {

/// About how many vector instructions the kernel does per vector of a row.
int64_t operations_per_vector(const Kernel& kernel);

/// Vectors per iteration: short bodies need several to hide latency, long ones are long enough.
size_t vectors_at_once(const Kernel& kernel);

}  // namespace rnnc
