/// A scan's algebra without any GPU: what composed maps say that states are.
#pragma once

#include <functional>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// Of each carry, or each instruction, a row's elements.
using ScanStates = std::vector<std::vector<double>>;
/// What the kernel's instructions are at a step, with these states before it.
using ScanValues = std::function<ScanStates(const ScanStates& states, int64_t step)>;

/// The states before each tile, round by round, from those before the first: tile i has the steps
/// [begins[i], begins[i + 1]).
std::vector<ScanStates> scan_tiles(const Kernel& kernel, const ScanLaunch& launch,
                                   const std::vector<int64_t>& begins, const ScanStates& first,
                                   const ScanValues& values);

}  // namespace rnnc
