/// Totals and recurrences read the caller's arrays a step late themselves: no copy is made of them
/// for that.
///
///     earlier b41 = b2
///     total b9 += b4 x b41                →      total b9 += b4 x b2, a step earlier
///     resident … k3(b5, b41)              →      resident … k3(b5, b2) with a1 a step earlier
///
/// A GPU's totals are products over a chunk's rows, which may as well begin a step before; the
/// sequence's first step, which has none before it, adds nothing. (LSTM 16x1024 in bf16, 512 steps:
/// a copy of 32 MiB less.) What recurrences copy ahead (ir/persistent/recurrence_inputs.h) may come
/// from any step, too.
#pragma once

#include "ir/plan/plan.h"
#include "passes/options/machine.h"

namespace rnnc {

/// `plan` has its pads, and no lags and no offsets yet. True if it has changed. Copies that
/// something else reads too stay, and so do those whose rows are aligned where the caller's are
/// not. Does nothing for a CPU.
bool run_earlier_reads(Plan& plan, const Machine& machine);

}  // namespace rnnc
