// 1. Copy the nodes in order, renumbering operands; a product of two vectors becomes two nodes.
// 2. Renumber states and outputs.
#include "passes/dot_products.h"

#include <algorithm>

namespace rnnc {

bool run_dot_products(Graph& graph) {
  const std::vector<Node> old = std::move(graph.nodes);
  graph.nodes.clear();
  std::vector<NodeId> renumbered(old.size());
  for (size_t id = 0; id < old.size(); ++id) {
    Node node = old[id];
    const bool is_dot =
        node.op == Op::MatMul && std::ranges::all_of(node.operands, [&](NodeId operand) {
          return old[operand].type.rank() == 1;
        });
    for (NodeId& operand : node.operands) operand = renumbered[operand];
    if (is_dot) {
      const NodeId product = graph.apply(Op::Mul, node.operands, node.location);
      renumbered[id] = graph.apply(Op::Sum, {product}, node.location);
    } else {
      renumbered[id] = static_cast<NodeId>(graph.nodes.size());
      graph.nodes.push_back(std::move(node));
    }
  }
  for (StateDecl& state : graph.states) {
    state.init = renumbered[state.init];
    state.next = renumbered[state.next];
  }
  for (OutputDecl& output : graph.outputs) output.value = renumbered[output.value];
  return graph.nodes.size() != old.size();
}

}  // namespace rnnc
