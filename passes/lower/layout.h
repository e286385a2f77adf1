/// Where the values of a scheduled graph lie: the plan's buffers, and each value's place in them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "passes/graph/histories.h"
#include "passes/schedule/schedule.h"

namespace rnnc {

/// Places are Accesses with the stride of rows (t, b) or b; Invariant ones have stride 0.
struct Layout {
  struct StateBuffers {
    BufferId carry =
        kNoBuffer;  // of a loop: all that the caller's hold, of which it has the newest
    BufferId compute = kNoBuffer;  // history in the compute type; of a loop only if others read it
    BufferId storage = kNoBuffer;  // and in the storage type, if products need one of their own
    BufferId initial = kNoBuffer;  // the caller's
    BufferId final = kNoBuffer;    // likewise
    StateSteps steps;              // that these hold, and the histories keep
  };
  /// Weights stacked in a buffer, one after the other.
  struct Pack {
    struct Part {
      NodeId weight = kNoNode;
      bool transpose = false;  // each of its matrices, if it is one of blocks
      friend auto operator<=>(const Part&, const Part&) = default;
    };
    BufferId buffer = kNoBuffer;
    std::vector<Part> parts;
  };
  /// A whole sequence's values copied for products that run step by step.
  struct Staged {
    uint32_t stage = 0;  // of the schedule
    Access source;
    Access target;
    int64_t width = 0;
  };
  /// A param of another type than the plan's, and where it is in the plan's.
  struct Rounded {
    NodeId param = kNoNode;
    Access source;
    Access target;
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
  std::vector<Staged> staged;
  std::vector<Rounded> rounded;
  std::map<std::pair<NodeId, uint32_t>, Access> masks;  // by sweep
  // Per node.
  std::vector<Place> places;               // in its own sweep
  std::vector<Place> kept;                 // in later sweeps, and for a Reverse: all steps
  std::vector<Access> carried;             // states of a loop, for it
  std::vector<Access> left, weight;        // first node of a product group: the group's operands
  std::vector<std::vector<Store>> stores;  // none: nothing wants it outside its kernel

  /// Where launches of `stage` read the value.
  Place read(const Schedule& schedule, NodeId id, uint32_t stage) const;
  /// Where a Transpose, Reverse, Earlier, Rows or Real reads its first operand.
  Place source(const Graph& graph, const Schedule& schedule, NodeId move) const;
};

/// "add.12"; leaves by their names. What a buffer that holds a value is called.
std::string value_name(const Graph& graph, NodeId id);
std::string value_name(const Graph& graph, NodeId id, NodeId number);

struct LayoutOptions {
  DType param_dtype = DType::f32;  // of the caller's params and of their gradients
  /// Products of many steps round what recurrences alone read to the plan's type, as the caller's
  /// arrays are: half the bytes, where that is of 16 bits.
  bool narrow_products = false;
};

/// Adds every buffer to `plan`, which has its dtype and batch. `state_steps`: what of each state the
/// caller's arrays hold.
Layout make_layout(const Graph& graph, const Dependence& dependence, const Schedule& schedule,
                   const std::vector<StateSteps>& state_steps, const LayoutOptions& options,
                   Plan& plan);

}  // namespace rnnc
