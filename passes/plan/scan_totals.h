/// Scans add up themselves what totals over the steps would read from them: gradients of params.
///
///     scan k4(…, b23[0:1536], …) carrying a0 = a15 in tiles of 8 x 4 steps …, exchange in b25
///     total b24 += b23[0:1536]
///       →   scan k4(…, b24[0:1536], …) carrying a0 = a15 adding up a9 in tiles of 8 x 4 steps …,
///             exchange in b25, partials in b26
///
/// Steps of what nothing else reads are then not stored at all. So is elementwise work for totals
/// alone on rows that the scan loads anyway:
///
///     k1(b1, b0, b88)
///     total b89 += b88
///
/// (Backward of a launch for 8 x 4096
/// steps of 1536 channels in bf16, of whose bytes they were: RWKV-4 0.29, HGRN 0.33, S4D 0.81.)
#pragma once

#include "ir/plan/plan.h"

namespace rnnc {

/// Of all scans. On a GPU they get partials. `plan` has no offsets yet.
void add_up_in_scans(Plan& plan);

}  // namespace rnnc
