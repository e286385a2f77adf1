/// What loops and scans share: the states that stay in registers from step to step.
#pragma once

#include <string>
#include <vector>

#include "ir/plan/launches/launch_verifier.h"
#include "ir/plan/plan_scanner.h"

namespace rnnc {

/// "a0 = a3, a1 = a4", and "carrying" before it where it is read.
std::string carries_text(const std::vector<LoopCarry>& carries);
void parse_carries(PlanScanner& in, size_t arguments, std::vector<LoopCarry>& carries);

/// The launch is alone in its stage, its kernel has no reductions and loads its carries first, and
/// each of these comes back to where it lay.
Status check_carries(LaunchVerifier& in, uint32_t kernel, const std::vector<Access>& accesses,
                     const std::vector<LoopCarry>& carries);

}  // namespace rnnc
