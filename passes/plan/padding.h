/// Rows of products' operands begin every multiple of 16 bytes, because products on a GPU are many
/// times slower where they do not: they are loaded element by element.
///
///     gemm b9 = b0 @ b1^T, n 4244, k 1061    →    k7(b0, b12)                          x into b12
///                                                 gemm b9 = b12 @ b13^T, n 4244, k 1064
///
/// In b12, a chunk of x, rows of 1061 elements have a pad of 3 zeros behind them. In b13, what a
/// Once stage made of the weight b1, they have 3 zeros as well. Products go over these, and over
/// pads of their results. Where something else lies behind the k elements of a left operand, k
/// stays, and rows only lie apart.
#pragma once

#include "ir/plan/plan.h"
#include "passes/options/machine.h"
#include "passes/plan/own_products.h"

namespace rnnc {

struct PaddingOptions {
  int64_t max_steps = 1;
  int64_t least_rows = 32;  // of a product of whole sequences, in a call
  int64_t least_size = 32;  // of k and n
  /// Products of fewer rows are those of rnnc's own kernels, step by step, which take rows of
  /// weights one behind the other only.
  int64_t least_library_rows = kMostOwnProductRows + 1;
};

/// `plan` has no lags yet, and no offsets. True if it has changed. Leaves the caller's buffers as
/// they are: what products read of them is copied, weights once and sequences chunk by chunk. Does
/// nothing for a CPU.
bool run_padding(Plan& plan, const Machine& machine, const PaddingOptions& options);

}  // namespace rnnc
