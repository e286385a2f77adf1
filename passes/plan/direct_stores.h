/// Lets products write what is only rounded then, or only moved, and rows of tables likewise.
///
///     gemm b9 = b10 @ b30, n 1024, k 2048           gemm b20 = b10 @ b30, n 1024, k 2048
///     k3(b9, b20)                              →
///     rows b5 = b1 of 5000 at b0                    rows b21 = b1 of 5000 at b0
///     k4(b5, b21)
///
/// where k3 and k4 store what they load, b9 is of the compute type and b20 of the storage type, or
/// of the compute type, too, as the states of a backward step are; b5 and b21 are of one type.
#pragma once

#include "ir/plan/plan.h"

namespace rnnc {

/// Of Sequence and Step stages. `products`: those, too, if the plan has its pads. The plan has no
/// offsets yet. True if it has changed.
bool run_direct_stores(Plan& plan, bool products);

}  // namespace rnnc
