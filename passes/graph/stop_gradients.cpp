// 1. Copy the nodes in order; for a `stop_gradient` its operand's copy stands.
#include "passes/graph/stop_gradients.h"

#include "passes/graph/rebuild.h"

namespace rnnc {

bool run_pass_through_stops(Graph& graph) {
  bool changed = false;
  rebuild(graph, all_nodes(graph), [&](Node node, NodeId, const auto&) {
    if (node.op != Op::StopGradient) return append_node(graph, std::move(node));
    changed = true;
    return node.operands[0];
  });
  return changed;
}

}  // namespace rnnc
