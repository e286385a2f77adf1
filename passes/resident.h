/// Keeps the weights of a recurrence on a GPU's chip: its steps become one launch per chunk.
///
///     step h (dense):                             sequence h (dense):
///       fused: r·h of R_r h[t-1]           →        resident: fused: r·h of R_r h[t-1]
///       fused: h of R_z h[t-1], R_n (r·h)                     fused: h of R_z h[t-1], R_n (r·h)
#pragma once

#include "ir/plan.h"
#include "passes/machine.h"

namespace rnnc {

/// `plan` has no lags yet, and no offsets. Recurrences that stay as they are say why in their
/// `reason`. True if one has changed. Does nothing for a CPU. `tile_rank`: as in
/// choose_recurrence_tile (passes/recurrence_tiles.h).
bool run_resident(Plan& plan, const Machine& machine, int64_t tile_rank = 0);

}  // namespace rnnc
