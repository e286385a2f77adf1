/// Weight gradients whose rows begin every multiple of 16 bytes, as products' do (padding.h), with
/// the operands that they are sums of: on a GPU they take two to five times as long where they do
/// not. (LSTM of 1085 units, 11008 rows, on an H100: 118 TFLOP/s in bf16 and 77 in TF32; 488 and
/// 216 with three columns more.)
///
///     total b9 += b4 x b0                     k7(b0, b12)                            x into b12
///     …                                →      total b9 += b4 x b12[0:1088]
///     last: k5(b9[0:1085, stride 1085], …)    last: k5(b9[0:1085, stride 1088], …)
///
/// In b12, rows of 1085 elements have three zeros behind them, whose sums in b9 nothing reads.
#pragma once

#include "ir/plan/plan.h"
#include "passes/options/machine.h"
#include "passes/plan/padding.h"

namespace rnnc {

/// `plan` has no lags yet, and no offsets. True if it has changed. Leaves the caller's buffers as
/// they are, totals of several blocks, and those whose results something else takes but elementwise
/// work after all steps. Does nothing for a CPU.
bool run_pad_totals(Plan& plan, const Machine& machine, const PaddingOptions& options);

}  // namespace rnnc
