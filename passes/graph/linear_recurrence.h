/// Whether a recurrence without products and reductions is linear in its states, by the proof of
/// passes/affine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc {

/// Before the updates of a recurrence that is linear.
inline constexpr std::string_view kAffineReason = "every update is affine in its states: ";

struct LinearProof {
  bool linear = false;
  /// For people: each state's update with its coefficients and offset, in the user's names; or the
  /// term that is in the way, with its place.
  std::string reason;
};

/// `nodes`: of a strongly connected component of the step, ascending, its states among them.
LinearProof prove_linear(const Graph& graph, const std::vector<NodeId>& nodes);

}  // namespace rnnc
