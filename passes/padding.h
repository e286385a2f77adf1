/// Rows of products' operands begin every multiple of 16 bytes, because a GPU's library is many
/// times slower where they do not: it loads them element by element.
///
///     gemm b9 = b0 @ b1^T, n 4244, k 1061    →    k7(b0, b12)                          x into b12
///                                                 gemm b9 = b12 @ b13^T, n 4244, k 1064
///
/// In b12, a chunk of x, rows of 1061 elements have a pad of 3 zeros behind them. In b13, what a
/// Once stage made of the weight b1, they have 3 zeros as well.
#pragma once

#include "ir/plan.h"
#include "passes/machine.h"

namespace rnnc {

/// Whether products go over the pads of their operands too, which are zero, so that k (and n, where
/// the result has room) are multiples of 16 bytes. Else k and n stay, and rows only lie apart.
inline constexpr bool kMultiplyPads = true;

struct PaddingOptions {
  int64_t max_steps = 1;
  bool multiply_pads = kMultiplyPads;
  /// A product is worth it with so many rows in a call, or in a step, where a GPU's own kernels
  /// multiply fewer (codegen/cuda/fused_kernels.cpp), and with k and n of so many.
  int64_t least_rows = 32;
  int64_t least_step_rows = 33;
  int64_t least_size = 32;
};

/// `plan` has no lags yet, and no offsets. True if it has changed. Leaves the caller's buffers as
/// they are: what products read of them is copied, weights once and sequences chunk by chunk. Does
/// nothing for a CPU.
bool run_padding(Plan& plan, const Machine& machine, const PaddingOptions& options);

}  // namespace rnnc
