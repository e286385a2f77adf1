/// Facts about a kernel of a Plan that decide what may be done with it.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// Whether any value of a row depends on all its elements; if not, each element stands by itself.
bool has_reductions(const Kernel& kernel);

/// By instruction: the index of the innermost of the kernel's loops that it is in, or `kNoLoop`.
inline constexpr uint32_t kNoLoop = UINT32_MAX;
std::vector<uint32_t> loops_of(const Kernel& kernel);

/// By loop: the one that it is in, or `kNoLoop`.
std::vector<uint32_t> loops_around(const Kernel& kernel);

/// What a loop of the kernel, or with `kNoLoop` its body, consists of, in order: instructions that
/// are in none of its inner loops, and these.
void visit_loop(const Kernel& kernel, uint32_t loop,
                const std::function<void(uint32_t)>& instruction,
                const std::function<void(uint32_t)>& inner);

/// By instruction: how often it runs for an element.
std::vector<int64_t> runs_of(const Kernel& kernel);

/// By instruction: if a later loop takes what it is at each l, how many of these there are at a time,
/// else 0. Of an inner loop they are those of one turn of the outer loop, or of all turns, one turn's
/// behind the other's. What a loop that is in none has made a loop in a loop takes at its own turn if
/// it has as many, else at the turn of the one around it.
std::vector<int64_t> kept_for_later_loops(const Kernel& kernel);

/// By instruction: how many reductions, each needing the one before it, come before it. What a
/// reduction reduces is of the same level as itself, who uses it of the next.
std::vector<int> reduction_levels(const Kernel& kernel);

/// By product: the last one of those that its results are the first ones of, itself included. Sums
/// of both may be made as one.
std::vector<size_t> common_sums(const FusedLaunch& launch);

/// Whether products of different sizes have sums in common: then a warp has the same gates of all
/// only if it has all gates.
bool have_unequal_sums(const FusedLaunch& launch);

/// Reduce instructions of all phases.
int64_t count_reductions(const Plan& plan, std::span<const FusedLaunch> phases);

/// Places of arrays that the kernel of a recurrence of these phases takes
/// (ir/base/launch_limits.h), with an exchange for each side, and a stream where there is one.
int64_t count_arrays(const Plan& plan, std::span<const FusedLaunch> phases, size_t sides);

}  // namespace rnnc
