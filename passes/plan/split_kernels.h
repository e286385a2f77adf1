/// Takes kernels of more instructions than compilers take well apart: launches one after the other,
/// which hand on what later ones need.
///
///     elementwise: k0(b0, b1, b2)               elementwise: k1(b0, b3)
///       %0 = load a0                              %0 = load a0
///       …                                         …
///       %700 = tanh %699                  →       store a1, %700
///       …                                       elementwise: k2(b3, b1, b2)
///       %1300 = mul %700, %1299                   %0 = load a0
///                                                 …
#pragma once

#include "ir/plan/plan.h"
#include "passes/options/machine.h"

namespace rnnc {

/// Instructions and arguments of a kernel that stays as it is. A compiler's time grows faster than
/// its kernels do: 10,000 operations in one took LLVM three minutes.
inline constexpr size_t kMostInstructions = 1024;
inline constexpr size_t kMostArguments = 256;

/// Whether a kernel has more of either.
bool is_too_long(const Kernel& kernel);

/// Of elementwise launches whose kernels have no loops. `plan` has its lags, and no offsets yet.
/// True if it has changed.
bool run_split_kernels(Plan& plan, const Machine& machine);

}  // namespace rnnc
