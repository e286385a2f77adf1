/// Where the values of a scheduled graph lie: the plan's buffers, and each value's place in them.
#pragma once

#include <vector>

#include "passes/schedule.h"

namespace rnnc {

/// Places are Accesses with the stride of rows (t, b) or b; Invariant ones have stride 0.
struct Layout {
  struct StateBuffers {
    BufferId compute = kNoBuffer;  // history in the compute type
    BufferId storage = kNoBuffer;  // and in the storage type, if products need one of their own
    BufferId initial = kNoBuffer;  // the caller's; none for states that the passes made
    BufferId final = kNoBuffer;
  };
  /// Weights stacked in a buffer, one after the other.
  struct Pack {
    BufferId buffer = kNoBuffer;
    std::vector<NodeId> weights;
  };

  std::vector<StateBuffers> states;
  std::vector<Pack> packs;
  // Per node; buffer is kNoBuffer where there is no such place.
  std::vector<Access> compute;  // where kernels load the value
  std::vector<Access> storage;  // where products read it as an operand
  std::vector<Access> weight;   // first node of a product group: the group's weights
  /// Per node: where a kernel that has the value writes it. Temporaries in the node's own stage;
  /// results (states and outputs) there too, or in the first parallel stage for invariants.
  std::vector<std::vector<Access>> temporaries;
  std::vector<std::vector<Access>> results;
};

/// Adds every buffer to `plan`, which has its dtype, batch and chunk, and gives them offsets. The
/// first `caller_states` states of the graph are the caller's.
Result<Layout> make_layout(const Graph& graph, const Dependence& dependence,
                           const Schedule& schedule, size_t caller_states, Plan& plan);

}  // namespace rnnc
