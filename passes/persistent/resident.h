/// Keeps the weights of a recurrence on a GPU's chip: its steps become one launch per chunk.
///
///     step h (dense):                             sequence h (dense):
///       fused: r·h of R_r h[t-1]           →        resident: fused: r·h of R_r h[t-1]
///       fused: h of R_z h[t-1], R_n (r·h)                     fused: h of R_z h[t-1], R_n (r·h)
#pragma once

#include <map>
#include <set>
#include <string>

#include "ir/plan/plan.h"
#include "passes/options/machine.h"
#include "passes/tile/recurrence_tiles.h"

namespace rnnc {

struct ResidentChoice {
  TileChoice tile = {};
  bool padded = false;  // products that stay launches get aligned rows (passes/plan/padding.h)
  /// By the recurrence's name, seconds of a step in launches: of those whose work is formed to be
  /// one (passes/schedule/phases.h), which no GPU can run as it is, as it was before…
  std::map<std::string, double> formed = {};
  /// …and of any in other launches than the plan's. What would be slower than these stays too.
  std::map<std::string, double> other_launches = {};
  /// Calls have one step: it takes as long as loading its weights does, too.
  bool one_step = false;
};

/// `plan` has no lags yet, and no offsets. Recurrences that stay as they are say why in their
/// `reason`; with a strategy that is an error, as is a plan without any that it is for, and what
/// would be slow goes too. True if one has changed. Does nothing for a CPU.
Result<bool> run_resident(Plan& plan, const Machine& machine, const ResidentChoice& choice = {});

/// Names of the recurrences that may be resident once their work has been formed for it, which has
/// not: products have launches of their own (passes/schedule/phases.h).
std::set<std::string> recurrences_to_form(const Plan& plan);

/// Names of those that are.
std::set<std::string> resident_recurrences(const Plan& plan);

/// Resident recurrences of the sweep that has most.
int64_t most_resident(const Plan& plan);

}  // namespace rnnc
