/// Keeps the weights of a recurrence on a GPU's chip: its steps become one launch per chunk.
///
///     step h (dense):                             sequence h (dense):
///       fused: r·h of R_r h[t-1]           →        resident: fused: r·h of R_r h[t-1]
///       fused: h of R_z h[t-1], R_n (r·h)                     fused: h of R_z h[t-1], R_n (r·h)
#pragma once

#include <map>
#include <string>

#include "ir/plan/plan.h"
#include "passes/options/machine.h"
#include "passes/tile/recurrence_tiles.h"

namespace rnnc {

struct ResidentChoice {
  TileChoice tile = {};
  bool padded = false;  // products that stay launches get aligned rows (passes/plan/padding.h)
  /// Seconds of a step in other launches than the plan's, by the recurrence's name: what would be
  /// slower than these stays too.
  std::map<std::string, double> other_launches = {};
};

/// `plan` has no lags yet, and no offsets. Recurrences that stay as they are say why in their
/// `reason`; with a strategy that is an error, as is a plan without any that it is for, and what
/// would be slow goes too. True if one has changed. Does nothing for a CPU.
Result<bool> run_resident(Plan& plan, const Machine& machine, const ResidentChoice& choice = {});

/// Resident recurrences of the sweep that has most.
int64_t most_resident(const Plan& plan);

}  // namespace rnnc
