/// Turns a scheduled and laid out graph into the plan's kernels, launches and state launches.
#pragma once

#include "passes/lower/layout.h"
#include "passes/schedule/schedule.h"

namespace rnnc {

/// Fills `plan.kernels`, `plan.stages` (without empty ones) and `plan.states`.
void make_launches(const Graph& graph, const Dependence& dependence, const Schedule& schedule,
                   const Layout& layout, Plan& plan);

}  // namespace rnnc
