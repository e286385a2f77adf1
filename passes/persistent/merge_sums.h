/// Makes one product of those of a phase whose results are added up and whose left operands lie side
/// by side, as those of a backward step's gates do (passes/plan/merge_totals.h).
///
///     a0 += b42[0:16] @ b48^T, k 16
///     a0 += b42[16:32] @ b49^T, k 16      →      a0 += b42 @ b54^T, k 64
///     a0 += b42[32:48] @ b50^T, k 16             copy b53[0:256] = R_o, …; copy b54 = b53^T, once
///     a0 += b42[48:64] @ b51^T, k 16
///
/// A block then waits for all parts of its left operand together and not for one after the other.
/// H100, forward and backward, us a step, apart and merged: LSTM 1x1024 in f32 4.0 and 3.5, 64x1024
/// in bf16 10.9 and 10.4; three layers of 16x256 in bf16 as one launch 3.7 and 3.3. Where tensor
/// cores have but one tile of rows they gain more from beginning with the part that comes first: LSTM
/// 16x512 in bf16, in clusters, 2.4 and 2.7, 16x1024 in TF32 6.9 and 7.4.
#pragma once

#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// Adds buffers to the plan; what fills them once a call is for append_once
/// (passes/lower/once_stages.h). None if nothing has changed.
std::vector<Launch> merge_sums(Plan& plan, std::vector<FusedLaunch>& phases);

}  // namespace rnnc
