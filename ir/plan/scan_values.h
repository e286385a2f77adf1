/// What a thread of a scan on a GPU computes once of each of its steps, when their inputs arrive,
/// and keeps in registers until the states before them are known.
#pragma once

#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// Of a tile where there are many channels on a GPU; half of them where a step keeps much.
inline constexpr int64_t kWarpsOfManyChannels = 8;

/// By instruction of the launch's kernel: those that depend on the step but on no state, and are
/// used by what depends on states, or are results, but for what is an operation or two on others of
/// them. Where that would be much more than the inputs themselves, these.
std::vector<bool> scan_values(const Plan& plan, const ScanLaunch& launch);

/// By instruction: the round with whose maps it is computed, if it depends on states of earlier
/// rounds alone, is no cheap operation, and is used again behind the round, so that a thread keeps
/// it, too; -1 for all others. Of few instructions: else none is kept.
std::vector<int> scan_values_of_rounds(const Plan& plan, const ScanLaunch& launch);

}  // namespace rnnc
