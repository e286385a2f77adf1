// 1. Mark what outputs, results and states (`init`, `next`) name, then operands, from the last node to the
//    first: ids are in topological order.
// 2. Keep the marked nodes in order and renumber.
#include "passes/graph/dead_code.h"

#include <algorithm>
#include <functional>

#include "passes/graph/rebuild.h"

namespace rnnc {

bool run_dead_code(Graph& graph) {
  std::vector<bool> live(graph.nodes.size(), false);
  for_each_root(graph, [&](NodeId root) { live[root] = true; });
  for (size_t id = graph.nodes.size(); id-- > 0;) {
    if (!live[id]) continue;
    for (NodeId operand : graph.nodes[id].operands) live[operand] = true;
  }
  if (std::ranges::all_of(live, std::identity())) return false;

  std::vector<NodeId> renumbered(graph.nodes.size(), kNoNode);
  std::vector<Node> kept;
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    if (!live[id]) continue;
    renumbered[id] = static_cast<NodeId>(kept.size());
    kept.push_back(std::move(graph.nodes[id]));
    for (NodeId& operand : kept.back().operands) operand = renumbered[operand];
  }
  graph.nodes = std::move(kept);
  for_each_root(graph, [&](NodeId& root) { root = renumbered[root]; });
  return true;
}

}  // namespace rnnc
