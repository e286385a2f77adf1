/// Lets products write what is only rounded then, or only moved.
///
///     gemm b9 = b10 @ b30, n 1024, k 2048           gemm b20 = b10 @ b30, n 1024, k 2048
///     k3(b9, b20)                              →
///
/// where k3 stores what it loads, b9 is of the compute type and b20 of the storage type, or of the
/// compute type, too, as the states of a backward step are.
#pragma once

#include "ir/plan/plan.h"

namespace rnnc {

/// Of Sequence and Step stages. `plan` has its pads, and no offsets yet. True if it has changed.
bool run_narrow_products(Plan& plan);

}  // namespace rnnc
