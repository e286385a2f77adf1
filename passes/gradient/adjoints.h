/// What the operands of one node get of its adjoint.
#pragma once

#include <functional>

#include "ir/graph/graph.h"

namespace rnnc {

/// A node and its surroundings as its rule sees them. Ids of `forward` are values, those of
/// `backward` adjoints and copies of values.
struct AdjointContext {
  const Graph& forward;
  Graph& backward;
  NodeId node = kNoNode;     // of `forward`
  NodeId adjoint = kNoNode;  // of `backward`
  bool after = false;        // the adjoint comes after all steps: the node is an invariant

  /// Whether operand number i has an adjoint at all.
  std::function<bool(size_t operand)> wanted;
  /// A value of `forward`, in `backward`.
  std::function<NodeId(NodeId)> value;
  /// Adds to the adjoint of operand number i.
  std::function<void(size_t operand, NodeId value)> add;
  /// Adds to elements [begin, end) of its first axis.
  std::function<void(size_t operand, int64_t begin, int64_t end, NodeId value)> add_piece;
  /// Adds the outer product of two values of a step, summed over steps and batch, to the adjoint of
  /// an operand that is an invariant.
  std::function<void(size_t operand, NodeId left, NodeId right)> add_outer;
  /// Adds the adjoint, summed over steps and batch, to those rows of the adjoint of an operand that
  /// is an invariant which an integer names.
  std::function<void(size_t operand, NodeId integer)> add_rows;
  /// Whether operand number i is an invariant.
  std::function<bool(size_t operand)> invariant;
};

/// For every op but leaves.
void add_adjoints(const AdjointContext& context);

}  // namespace rnnc
