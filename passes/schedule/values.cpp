#include "passes/schedule/values.h"

namespace rnnc {
namespace {

ValueKind kind_of(const Node& node, bool invariant) {
  switch (node.op) {
    case Op::Input:
    case Op::Param:
    case Op::State:
    case Op::Final:
    case Op::Constant:
    case Op::Valid:
    case Op::Reset:
      return ValueKind::Leaf;
    case Op::Slice:
    case Op::Index:
      return ValueKind::View;
    case Op::Reverse:
      return invariant ? ValueKind::View : ValueKind::Moved;
    case Op::Broadcast:
      return ValueKind::Spread;
    case Op::Concat:
    case Op::Stack:
      return ValueKind::Assembly;
    case Op::MatMul:
      return ValueKind::Product;
    case Op::Vector:
    case Op::Range:
    case Op::Eye:
    case Op::Transpose:
    case Op::Earlier:
    case Op::Rows:
    case Op::Real:
    case Op::Total:
      return ValueKind::Moved;
    default:
      return ValueKind::Fused;
  }
}

/// Elements of the operand before those of a view: `begin` positions of its first axis.
int64_t view_offset(const Graph& graph, const Node& view) {
  if (view.op == Op::Reverse) return 0;
  const Shape& shape = graph[view.operands[0]].type.shape;
  return *view.begin.constant() * element_count(Shape(shape.begin() + 1, shape.end()));
}

void find_users(const Graph& graph, Values& values) {
  const size_t count = graph.nodes.size();
  values.users.resize(count);
  values.readers.resize(count);
  values.is_result.resize(count, false);
  values.is_stored.resize(count, false);
  for (NodeId id = 0; id < count; ++id) {
    for (NodeId operand : graph[id].operands) {
      values.users[operand].push_back(id);
      if (values.kind[id] == ValueKind::Spread) continue;
      const NodeId read = values.read[operand];
      values.readers[read].push_back(id);
      if (values.kind[id] != ValueKind::Fused) values.is_stored[read] = true;
    }
  }
  const auto add_result = [&](NodeId id) {
    values.users[id].push_back(kNoNode);
    const NodeId read = values.read[id];
    values.is_result[read] = values.is_stored[read] = true;
  };
  for (const StateDecl& state : graph.states) add_result(state.next);
  for (const OutputDecl& output : graph.outputs) add_result(output.value);
  for (const ResultDecl& result : graph.results) add_result(result.value);
}

}  // namespace

Values find_values(const Graph& graph, const Dependence& dependence) {
  Values values;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph[id];
    const bool invariant = dependence.variation[id] == Variation::Invariant;
    const ValueKind kind = kind_of(node, invariant);
    values.kind.push_back(kind);
    Origin origin{id, 0};
    if (kind == ValueKind::View) {
      origin = values.origin[node.operands[0]];
      origin.offset += view_offset(graph, node);
    }
    values.origin.push_back(origin);
    const bool same = kind == ValueKind::Spread || (node.op == Op::Reverse && origin.value != id);
    values.read.push_back(same ? values.read[node.operands[0]] : id);
    const bool after = dependence.variation[id] == Variation::After;
    values.in_every_sweep.push_back(invariant || after || node.op == Op::Input || is_mask(node.op));
  }
  find_users(graph, values);
  return values;
}

}  // namespace rnnc
