/// What a thread of a scan on a GPU computes once of each of its steps, when their inputs arrive,
/// and keeps in registers until the states before them are known.
#pragma once

#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// By instruction of the launch's kernel: those that depend on the step but on no state, and are
/// used by what depends on states, or are results. Where that would be much more than the inputs
/// themselves, these.
std::vector<bool> scan_values(const Plan& plan, const ScanLaunch& launch);

}  // namespace rnnc
