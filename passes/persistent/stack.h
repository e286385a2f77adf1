/// Runs the resident recurrences of a network's layers as one launch, each on blocks of its own.
///
///     sequence h0: resident                      sequence h0, h1: resident on 2 sides
///     sequence: gemm p = h0[t] W^T          →      side 0: h0 …
///     sequence h1: resident … p …                  side 1: a0 += h0[t] @ W^T: h1 …
///
/// Layers go through the steps like stations of a pipeline: while one makes step t, the one above
/// makes what the steps before left to it. Between them is no launch, no wave and no memory but the
/// exchange, and their weights for each other's values stay on the chip too.
#pragma once

#include "ir/plan/plan.h"
#include "passes/options/machine.h"
#include "passes/tile/recurrence_tiles.h"

namespace rnnc {

/// After run_resident (passes/persistent/resident.h): `plan` has no lags yet, and no offsets. What
/// may be on top of what it says itself (ir/plan/stack_place.h). Merges what fits, whatever it
/// costs; the choice's sides do not matter. True if anything has changed, else the plan is as it
/// was: with the strategy Stacked that is an error.
Result<bool> run_stack(Plan& plan, const Machine& machine, const TileChoice& choice = {});

/// From then on the plan says nothing of which products may be whose, and what on top of what.
void forget_others_work(Plan& plan);

}  // namespace rnnc
