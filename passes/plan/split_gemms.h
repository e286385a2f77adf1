/// Products of f32 over whole chunks in three parts on tensor cores, where that is faster.
///
///     gemm b9 = b0 @ b1^T, n 4096, k 1024
///
/// becomes
///
///     split b13 = b1, a weight, parts of 1024, 4096 rows        once
///     split b12 = b0, a left operand, parts of 1024
///     gemm b9 = b12 @ b13^T, n 4096, k 3072, in TF32
///
/// and, likewise, parts of each row as rows of their own,
///
///     total b43 += b41 x b0
///
/// becomes
///
///     split b51 = b41, a left operand, parts of 4096
///     split b53 = b0, a weight, turned, parts of 1024
///     total b43 += b51[0:4096] x b53[0:1024], in parts, turned
///
/// In a plan that rounds to TF32 the right operand of a total alone becomes one part, turned:
/// tensor cores multiply TF32 along memory, and a library that has both operands across it takes
/// 1.5 times as long, if one is turned no longer than if both are. (LSTM 16x1024, weight gradients
/// of 512 steps on an H100: 285 and 187 us in one part, 872 and 520 in three.)
///
/// With a' an element a rounded to TF32 and a" = a - a', a b is taken as a' b" + a" b' + a' b'.
/// What is left out is at most 2^-22 |a b|, and tensor cores cut off a" and b" by at most 2^-23 |a|
/// and 2^-23 |b|: 2^-21 |a b| in all, as much as 8 roundings of f32. (Below 2^-113, TF32 has no
/// numbers that are so small: 2^-136 |b| for an a like that, and 2^-136 |a| for such a b.) The
/// small parts come first in each sum, so that they do not suffer from the rounding of the large
/// one. (Ootomo, Yokota: Recovering single precision accuracy from Tensor Cores while surpassing
/// the FP32 theoretical peak performance, 2022.)
///
/// Infinities and NaNs come out as a' b' alone has them: where a or b is not finite, or so large
/// that its small parts could be infinite in the product (kMostSplitLeft, kMostSplitWeight), these
/// are zero, and the product has the accuracy of TF32. For their sake no a' is zero or infinite but
/// where a is.
#pragma once

#include "ir/plan/plan.h"
#include "passes/options/machine.h"

namespace rnnc {

struct SplitGemmsOptions {
  int64_t max_steps = 1;
  bool always = false;  // also where it is not faster
};

/// `plan` has no lags yet, no offsets and no pads. True if it has changed. Products of several
/// blocks, of Once stages and step by step stay as they are; so do those of a CPU and of other
/// types.
bool run_split_gemms(Plan& plan, const Machine& machine, const SplitGemmsOptions& options);

}  // namespace rnnc
