/// Makes loops over linear recurrences scans, which run tiles of time side by side.
///
///     loop k1(h, z, n, h) carrying a0 = a3
///       →   scan k1(h, z, n, h) carrying a0 = a3 in tiles of 8 x 8 steps, exchange in e
///             sum of a0, bounded: %5; %6
///
/// The kernel gets what its rounds need besides. On a CPU there is no exchange. On a GPU states
/// that decay alike share a round, and a scan reads steps of the step before, which a launch would
/// copy for it, where they lie.
#pragma once

#include <string>

#include "ir/plan/plan.h"
#include "passes/options/machine.h"

namespace rnnc {

struct ScanChanges {
  int made = 0;
  std::string refusal;  // why the first loop that stays is no scan; empty: none stays
};

/// Of all loops that may be scans. `plan` has no offsets yet.
ScanChanges run_scans(Plan& plan, const Machine& machine);

}  // namespace rnnc
