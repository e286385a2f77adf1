/// What passes over a plan add to the work that is done once a call.
#pragma once

#include <span>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// Puts launches behind those of all Once stages, in a stage of their own if there is none.
void append_once(Plan& plan, std::span<const Launch> launches);

/// The weight of a transposed product as one that is not has it, in a buffer of its own: adds to
/// `once` what copies it there. Of a product whose weight has no stride.
Access turn_weight(Plan& plan, const GemmLaunch& gemm, std::vector<Launch>& once);

}  // namespace rnnc
