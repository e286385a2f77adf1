/// The launches of a Step stage as phases of a recurrence that runs in one launch.
///
///     gemm p = R h[t-1]                        phase a0 += h[t-1] @ R^T:
///     kernel { m = mean(p); h = tanh(p - m) }  →     kernel { m = mean(a0); h = tanh(a0 - m) }
#pragma once

#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// Adds kernels to the plan. The error says which launch cannot be a phase.
Result<std::vector<FusedLaunch>> recurrence_phases(Plan& plan, size_t stage);

}  // namespace rnnc
