/// Which values a group makes, and which it reads.
#pragma once

#include <vector>

#include "passes/schedule/schedule.h"

namespace rnnc {

/// Of products their results; of kernels what they compute and what they copy.
std::vector<NodeId> made_by(const Group& group);

/// Of what a kernel computes, or of a move.
std::vector<NodeId> operands_of(const Graph& graph, const Group& group);

/// What a kernel does not compute, but stores where others want it.
std::vector<NodeId> copied_by(const Group& group);

/// Left operands of products; weights are there before all steps.
std::vector<NodeId> multiplied_by(const Group& group);

}  // namespace rnnc
