/// What passes that rewrite a Graph share.
#pragma once

#include <utility>

#include "ir/graph/graph.h"

namespace rnnc {

/// Calls `visit` on a reference to each `init`, `next`, output and result of the graph: the values that
/// everything else is there for.
template <typename Visit>
void for_each_root(Graph& graph, Visit visit) {
  for (StateDecl& state : graph.states) {
    visit(state.init);
    visit(state.next);
  }
  for (OutputDecl& output : graph.outputs) visit(output.value);
  for (ResultDecl& result : graph.results) visit(result.value);
}

/// Adds a node as it is.
inline NodeId append_node(Graph& graph, Node node) {
  graph.nodes.push_back(std::move(node));
  return static_cast<NodeId>(graph.nodes.size() - 1);
}

/// Whether a value is a constant 0, or one spread over a shape.
inline bool is_zero(const Graph& graph, NodeId id) {
  while (graph[id].op == Op::Broadcast) id = graph[id].operands[0];
  return graph[id].op == Op::Constant && graph[id].value == 0;
}

/// All ids in their order.
inline std::vector<NodeId> all_nodes(const Graph& graph) {
  std::vector<NodeId> ids(graph.nodes.size());
  for (NodeId id = 0; id < ids.size(); ++id) ids[id] = id;
  return ids;
}

/// Builds the graph anew from its nodes in `order`, a topological one. `emit` gets each node with
/// its operands renumbered, its old id, and the results so far by old id; it adds to the graph what
/// should take the node's place, and returns that.
template <typename Emit>
void rebuild(Graph& graph, const std::vector<NodeId>& order, Emit emit) {
  std::vector<Node> old = std::move(graph.nodes);
  graph.nodes.clear();
  std::vector<NodeId> renumbered(old.size(), kNoNode);
  for (NodeId id : order) {
    for (NodeId& operand : old[id].operands) operand = renumbered[operand];
    renumbered[id] = emit(std::move(old[id]), id, std::as_const(renumbered));
  }
  for_each_root(graph, [&](NodeId& root) { root = renumbered[root]; });
}

}  // namespace rnnc
