/// The adjoint of one value: the sum of what each of its uses contributes.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace rnnc {

/// Contributions are nodes of the backward Graph, each of the value's shape or a scalar that stands
/// for all of its elements.
struct AdjointSum {
  /// For elements [begin, end) of the first axis; all others get nothing.
  struct Piece {
    int64_t begin = 0;
    int64_t end = 0;
    NodeId value = kNoNode;
  };
  std::vector<NodeId> values;    // of a step of forward values
  std::vector<NodeId> reversed;  // of a step of values that run in reverse
  std::vector<NodeId> unmasked;  // of a step, and zero past a sequence's end already or meant to
                                 // hold there too
  std::vector<NodeId> after;     // of after all steps
  std::vector<Piece> pieces;

  bool empty() const {
    return values.empty() && reversed.empty() && unmasked.empty() && after.empty() &&
           pieces.empty();
  }
};

/// The sum of the values, in their order but for products, which come first: as neighbours they are
/// one result (passes/schedule/sums.h). kNoNode of none. Scalars spread to `type`.
NodeId add_all(Graph& graph, std::vector<NodeId> values, const Type& type, SourceLocation location);

/// Pieces as values of `type`: those that do not overlap side by side, with zeros between.
std::vector<NodeId> join_pieces(Graph& graph, std::vector<AdjointSum::Piece> pieces,
                                const Type& type, SourceLocation location);

/// `value` with its elements added up if `type` is a scalar. `by_rows`: a matrix piece by piece, as
/// one that varies over steps is only taken (passes/build_plan.h).
NodeId sum_to(Graph& graph, NodeId value, const Type& type, bool by_rows, SourceLocation location);

}  // namespace rnnc
