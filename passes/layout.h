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
    BufferId initial = kNoBuffer;  // the caller's
    BufferId final = kNoBuffer;
  };
  /// Weights stacked in a buffer, one after the other.
  struct Pack {
    BufferId buffer = kNoBuffer;
    std::vector<NodeId> weights;
  };
  /// A value in memory; buffers are kNoBuffer where nothing reads it.
  struct Place {
    Access compute;  // where kernels load it
    Access storage;  // where products read it as an operand
  };
  /// A place that a kernel which has the value fills.
  struct Store {
    uint32_t stage = 0;  // of the schedule
    Access access;
  };

  std::vector<StateBuffers> states;
  std::vector<Pack> packs;
  // Per node.
  std::vector<Place> places;               // in its own sweep
  std::vector<Place> kept;                 // in later sweeps, and for a Reverse: all steps
  std::vector<Access> weight;              // first node of a product group: the group's weights
  std::vector<std::vector<Store>> stores;  // none: nothing wants it outside its kernel

  /// Where launches of `stage` read the value.
  Place read(const Schedule& schedule, NodeId id, uint32_t stage) const;
  /// Where a Transpose or Reverse reads its operand.
  Place source(const Graph& graph, const Schedule& schedule, NodeId move) const;
};

/// Adds every buffer to `plan`, which has its dtype, batch and chunk, and gives them offsets.
Result<Layout> make_layout(const Graph& graph, const Dependence& dependence,
                           const Schedule& schedule, Plan& plan);

}  // namespace rnnc
