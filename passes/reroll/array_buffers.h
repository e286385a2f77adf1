/// Puts values that a family of instructions stores, each in a buffer of its own, in one buffer,
/// one behind the other, so that whoever loads them has them as an array.
///
///     b7: … 64        %9 = mul %0, %3                b7: … 4096
///     b8: … 64        store b7[0:64] = %9            store b7[0:64] = %9
///     …               %12 = mul %1, %4         →     store b7[64:128] = %12
///                     store b8[0:64] = %12           …
#pragma once

#include "ir/plan/plan.h"

namespace rnnc {

/// Of temporaries that one kernel writes, of at least `long_kernel` instructions, and that kernels
/// alone touch: `least` and more, and with `nests` likewise what loops around loops store. `plan` has no offsets yet. True if it has changed.
bool run_array_buffers(Plan& plan, size_t long_kernel, int64_t least, bool nests);

}  // namespace rnnc
