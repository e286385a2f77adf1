/// Makes loops around loops of kernels that do the same to one array behind the other.
///
///     loop 64:                                loop 8:
///       %1 = carried %0, %5                     loop 64:
///       %2 = carried %0, %8                       %1 = carried %0, %4
///       …                                         %2 = load a0
///       %3 = load a0                              %3 = load a1
///       %4 = load a1                     →        %4 = …
///       …                                       end
///     end                                       %9 = last %1
///     %40 = last %1                             %10 = tanh %9
///     %41 = last %2                             store a2, %10
///     …                                       end
#pragma once

#include <optional>

#include "passes/reroll/rerolled_kernel.h"

namespace rnnc {

/// What loops leave is worth loops around them if it is as long as this.
inline constexpr size_t kLongLoops = 64;

/// `rolled` is what reroll_kernel leaves of a kernel that runs on `accesses`; so is what comes back.
/// Nothing if no loops are alike, or if a nest would have to hand on what a kernel cannot.
std::optional<RerolledKernel> nest_loops(const RerolledKernel& rolled,
                                         const std::vector<Access>& accesses);

}  // namespace rnnc
