/// What a step has become: the launches of a plan and what they hand to each other, as a picture.
#pragma once

#include "ir/plan/plan.h"
#include "runtime/explain/describe_launch.h"
#include "runtime/explain/graph_picture.h"
#include "runtime/explain/launch_lines.h"

namespace rnnc::explain {

/// Copies that stack weights are left out: what they stack is a param here.
GraphPicture picture_of(const Plan& plan, const LaunchDescriber& describer,
                        const LaunchLines& lines);

}  // namespace rnnc::explain
