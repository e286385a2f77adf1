/// Makes one product of a step's products whose results are added up and whose left operands lie
/// side by side, as those of a backward step's gates do (passes/plan/merge_totals.h). On a GPU.
///
///     gemm b31 = b35[0:16] @ b41^T, n 16, k 16
///     gemm b31 += b35[16:32] @ b42^T, n 16, k 16     →     gemm b31 = b35 @ b46^T, n 16, k 48
///     gemm b31 += b35[32:48] @ b43^T, n 16, k 16
///
/// A step's product has few rows: a library gives it few tiles, which a longer k lets it divide, and
/// each launch waits for the one before. Recurrences on the chip do likewise for themselves
/// (passes/persistent/merge_sums.h), where that is faster.
#pragma once

#include "ir/plan/plan.h"
#include "passes/options/machine.h"

namespace rnnc {

/// `plan` has no lags yet. True if it has changed. On a CPU it stays as it is: there a product goes
/// through its weights once however many it is.
bool run_long_products(Plan& plan, const Machine& machine);

}  // namespace rnnc
