// 1. In order of ids, point each node's operands at the first of their equals.
// 2. Look the node up by op, operands, declaration, delay and the bits of its constant; the first
//    of its kind stands for all.
// 3. Point states and outputs at the first of their equals.
#include "passes/common_subexpressions.h"

#include <bit>
#include <map>
#include <tuple>

namespace rnnc {

bool run_common_subexpressions(Graph& graph) {
  using Key = std::tuple<Op, std::vector<NodeId>, uint32_t, uint32_t, uint64_t>;
  std::map<Key, NodeId> first_of_kind;
  std::vector<NodeId> stands_for(graph.nodes.size());
  bool changed = false;
  const auto redirect = [&](NodeId& use) {
    changed = changed || stands_for[use] != use;
    use = stands_for[use];
  };

  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    Node& node = graph.nodes[id];
    for (NodeId& operand : node.operands) redirect(operand);
    const Key key{node.op, node.operands, node.decl, node.delay,
                  std::bit_cast<uint64_t>(node.value)};
    stands_for[id] = first_of_kind.emplace(key, id).first->second;
  }
  for (StateDecl& state : graph.states) {
    redirect(state.init);
    redirect(state.next);
  }
  for (OutputDecl& output : graph.outputs) redirect(output.value);
  return changed;
}

}  // namespace rnnc
