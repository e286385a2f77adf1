/// Does totals of one right operand as one, and so the products of their left operands that are
/// added up: what a backward plan has for each gate becomes one launch for all gates.
///
///     total b20 += b10 x b1                      total b20[0:…] += b10[0:2048] x b1
///     total b21 += b11 x b1               →      gemm b9 = b10[0:2048] @ b30, n 1024, k 2048
///     gemm b9 = b10 @ b2, n 1024, k 1024
///     gemm b9 += b11 @ b3, n 1024, k 1024        copy b30[0:1048576] = b2, once, and so on
///
/// Left operands that one launch writes, in buffers of their own, come to lie side by side in one
/// buffer, and totals in another. Operands that only some right operands have lie at its ends.
#pragma once

#include "ir/plan/plan.h"
#include "passes/options/machine.h"

namespace rnnc {

/// `plan` has no lags yet, no offsets and no pads. True if it has changed. Totals of several blocks
/// stay apart; so do, on a GPU, those whose rows would not be aligned side by side.
bool run_merge_totals(Plan& plan, const Machine& machine);

/// Those too, on a GPU: each left operand begins at a multiple of 16 bytes, behind zeros that a
/// launch of its own writes; stacked weights have rows of zeros there. Sums of rows stay apart.
/// Behind what makes recurrences resident and stacks them, which does not look through such zeros.
bool run_merge_unaligned_totals(Plan& plan, const Machine& machine);

}  // namespace rnnc
