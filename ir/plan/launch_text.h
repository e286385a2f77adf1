/// Launches in a plan's text. `b3[t-1, 64:128]` is an access (ir/plan/plan_parse.h).
///
///     k0(b3, b7[t-1], b8[0:1]), 4 rows
///     gemm b20 += b0 @ b21^T, n 16, k 3, 4 blocks, 2 repeats, in TF32, 4 rows
///     copy b21[0:12] = b1^T, 3 x 4
///     reverse b10 = b9
///     mask b11 = reset reversed
///     split b30 = b0, a left operand, parts of 36, 4 rows
///     fused k0(product, product, b20, b19[t-1], b19, b18)
///       a0..1 += b18[t-1] @ b22^T, k 4, 2 blocks
///     loop k1(b24, b25, b34, b24) carrying a0 = a3
///     resident on 2 sides of 1 x 16 blocks of 8 warps, 8 rows at once, weights in 64 registers,
///       exchange in b7, begins in 2.5e-06 s and steps in 8e-07 s
///      side 0:
///       units of 16: fused …
///      side 1:
///       units of 32: fused …
///
/// `@ b21^T` is a weight [n, k], `@ b21` one that is `transposed`.
#pragma once

#include <optional>
#include <string>

#include "ir/plan/plan_scanner.h"

namespace rnnc {

/// Without the indent of its first line, which is of 4 spaces.
std::string launch_text(const Plan& plan, const Launch& launch);
std::string launch_text(const Plan& plan, const ElementwiseLaunch& launch);

/// The launch that comes next, if one does.
std::optional<Launch> parse_launch(PlanScanner& in);
/// One must.
ElementwiseLaunch parse_elementwise(PlanScanner& in);

}  // namespace rnnc
