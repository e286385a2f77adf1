// 1. Copy the nodes in order; a product of two vectors becomes two nodes.
#include "passes/graph/dot_products.h"

#include <algorithm>

#include "passes/graph/rebuild.h"

namespace rnnc {

bool run_dot_products(Graph& graph) {
  const size_t before = graph.nodes.size();
  rebuild(graph, all_nodes(graph), [&](Node node, NodeId, const auto&) {
    const auto is_vector = [&](NodeId operand) { return graph[operand].type.rank() == 1; };
    if (node.op != Op::MatMul || !std::ranges::all_of(node.operands, is_vector)) {
      return append_node(graph, std::move(node));
    }
    const NodeId product = graph.apply(Op::Mul, node.operands, node.location);
    return graph.apply(Op::Sum, {product}, node.location);
  });
  return graph.nodes.size() != before;
}

}  // namespace rnnc
