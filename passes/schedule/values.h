/// How the values of a graph come to lie in memory; where is the layout's business.
#pragma once

#include <vector>

#include "ir/graph/graph.h"
#include "passes/graph/dependence.h"

namespace rnnc {

enum class ValueKind : uint8_t {
  Leaf,    // there when the stage begins: inputs, params, states and their last values, constants,
           // masks
  View,    // a part of another value: Slice, Index, and Reverse of what does not vary
  Spread,  // Broadcast: kernels take the scalar; stored where memory wants the elements
  Assembly,  // Concat, Stack: pieces side by side, each stored by the kernel that has it
  Fused,     // computed by a kernel: scalar ops and reductions
  Product,   // computed by a GEMM
  Moved,     // written by launches of its own: Vector, Range, Eye, Transpose, Reverse, Total
};

/// Where the elements of a value lie: from `offset` on in those of `value`, which is no view.
struct Origin {
  NodeId value = kNoNode;
  int64_t offset = 0;
};

struct Values {
  // Per node.
  std::vector<ValueKind> kind;
  std::vector<Origin> origin;
  std::vector<NodeId> read;          // what kernels read for it: of a Broadcast its scalar
  std::vector<bool> in_every_sweep;  // invariants, inputs (all steps are there), masks (made anew),
                                     // and what is read after all sweeps
  /// Which nodes have it as an operand, and kNoNode for each state whose next value it is and each
  /// output.
  std::vector<std::vector<NodeId>> users;
  /// Which nodes take it as kernels do: itself, or as what a Broadcast spreads.
  std::vector<std::vector<NodeId>> readers;
  std::vector<bool> is_result;  // likewise: a state or an output takes it
  std::vector<bool> is_stored;  // in memory whatever kernels do
};

/// Numbers that are known before any array is: Moved, with nothing that they move.
inline bool is_known(Op op) {
  return op == Op::Vector || op == Op::Range || op == Op::Eye;
}

/// What costs an element of a kernel next to nothing.
inline bool is_sum_or_product(Op op) {
  return op == Op::Neg || op == Op::Add || op == Op::Sub || op == Op::Mul;
}

inline bool is_mask(Op op) {
  return op == Op::Valid || op == Op::Reset;
}

Values find_values(const Graph& graph, const Dependence& dependence);

}  // namespace rnnc
