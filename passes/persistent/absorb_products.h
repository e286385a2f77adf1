/// Of a plan of one step: products of what recurrences read, which have launches of their own for
/// the sake of all steps together, become products of the recurrences' launches.
///
///     sequence: gemm b20 = b0 @ b21^T               →  (gone)
///     sequence h, c: resident k0(product, b20, …)      sequence h, c: resident k1(product, …)
///       a0..3 += b4 @ b22^T                              a0..3 += b0 @ b21^T
///                                                        a0..3 += b4 @ b22^T
#pragma once

#include "ir/plan/plan.h"
#include "passes/options/machine.h"
#include "passes/tile/recurrence_tiles.h"

namespace rnnc {

/// Whatever it costs: for recurrences in launches and in loops, and for resident ones where a tile
/// has all weights on the chip. `plan` comes from run_stack (passes/persistent/stack.h), without lags
/// and offsets. True if any product has been absorbed. Does nothing for a CPU.
bool run_absorb_products(Plan& plan, const Machine& machine, const TileChoice& choice = {});

}  // namespace rnnc
