// Pieces: sort by where they begin; each goes behind the first row of pieces that has ended by then,
// or begins a row. Each row becomes one `concat` with zeros in its gaps, or a `stack`.
#include "passes/gradient/adjoint_sum.h"

#include <algorithm>

namespace rnnc {
namespace {

NodeId zeros(Graph& graph, Type type, int64_t count, SourceLocation location) {
  type.shape[0] = count;
  return graph.broadcast(graph.constant(0, location), type.shape, location);
}

/// Side by side. Stacks become one, so that the adjoint of an array is one of its elements.
NodeId join(Graph& graph, const std::vector<NodeId>& parts, SourceLocation location) {
  if (parts.size() == 1) return parts[0];
  std::vector<NodeId> rows;
  for (const NodeId part : parts) {
    if (graph[part].op != Op::Stack) return graph.apply(Op::Concat, parts, location);
    rows.insert(rows.end(), graph[part].operands.begin(), graph[part].operands.end());
  }
  return graph.apply(Op::Stack, std::move(rows), location);
}

}  // namespace

NodeId sum_to(Graph& graph, NodeId value, const Type& type, bool by_rows, SourceLocation location) {
  if (!type.is_scalar() || graph[value].type.is_scalar()) return value;
  const Shape& shape = graph[value].type.shape;
  if (!by_rows || shape.size() == 1) {
    const NodeId sum = graph.apply(Op::Sum, {value}, location);
    return sum_to(graph, sum, type, by_rows, location);
  }
  const int64_t rows = *shape[0].constant();
  std::vector<NodeId> sums;
  for (int64_t row = 0; row < rows; ++row) {
    sums.push_back(sum_to(graph, graph.index(value, row, location), type, by_rows, location));
  }
  return add_all(graph, sums, type, location);
}

NodeId add_all(Graph& graph, std::vector<NodeId> values, const Type& type,
               SourceLocation location) {
  std::ranges::stable_partition(values,
                                [&](NodeId value) { return graph[value].op == Op::MatMul; });
  NodeId sum = kNoNode;
  for (const NodeId value : values) {
    sum = sum == kNoNode ? value : graph.apply(Op::Add, {sum, value}, location);
  }
  if (sum == kNoNode || graph[sum].type == type) return sum;
  return graph.broadcast(sum, type.shape, location);
}

std::vector<NodeId> join_pieces(Graph& graph, std::vector<AdjointSum::Piece> pieces,
                                const Type& type, SourceLocation location) {
  if (pieces.empty()) return {};
  std::ranges::stable_sort(pieces, {}, &AdjointSum::Piece::begin);
  struct Row {
    int64_t end = 0;
    std::vector<NodeId> parts;
  };
  std::vector<Row> rows;
  for (const AdjointSum::Piece& piece : pieces) {
    auto row = std::ranges::find_if(rows, [&](const Row& r) { return r.end <= piece.begin; });
    if (row == rows.end()) row = rows.insert(row, Row());
    if (row->end < piece.begin) {
      row->parts.push_back(zeros(graph, type, piece.begin - row->end, location));
    }
    row->parts.push_back(piece.value);
    row->end = piece.end;
  }
  const int64_t size = *type.shape[0].constant();
  std::vector<NodeId> joined;
  for (Row& row : rows) {
    if (row.end < size) row.parts.push_back(zeros(graph, type, size - row.end, location));
    joined.push_back(join(graph, row.parts, location));
  }
  return joined;
}

}  // namespace rnnc
