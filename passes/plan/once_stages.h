/// What passes over a plan add to the work that is done once a call.
#pragma once

#include <span>

#include "ir/plan/plan.h"

namespace rnnc {

/// Puts launches behind those of all Once stages, in a stage of their own if there is none.
void append_once(Plan& plan, std::span<const Launch> launches);

}  // namespace rnnc
