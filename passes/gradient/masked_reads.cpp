// From the last node to the first: a node is hidden as far as all that uses it is, and by a `where`
// with a mask of resets, whose value otherwise it is, as far as that one looks back.
#include "passes/gradient/masked_reads.h"

#include <algorithm>
#include <limits>

namespace rnnc {

MaskedReads::MaskedReads(const Graph& graph) {
  const auto is_reset = [](const Node& node) { return node.op == Op::Reset; };
  if (std::ranges::none_of(graph.nodes, is_reset)) return;
  for (const uint32_t direction : {0u, 1u}) {
    std::vector<int64_t>& hidden = hidden_[direction];
    hidden.assign(graph.nodes.size(), std::numeric_limits<int64_t>::max());
    for (const StateDecl& state : graph.states) hidden[state.next] = hidden[state.init] = 0;
    for (const OutputDecl& output : graph.outputs) hidden[output.value] = 0;
    for (const ResultDecl& result : graph.results) hidden[result.value] = 0;
    for (size_t id = graph.nodes.size(); id-- > 0;) {
      const Node& node = graph.nodes[id];
      const bool crosses = node.op == Op::Reverse || node.op == Op::Earlier;
      for (size_t i = 0; i < node.operands.size(); ++i) {
        int64_t use = crosses ? 0 : hidden[id];
        const Node& first = graph[node.operands[0]];
        const bool masked = node.op == Op::Where && i == 2 && is_reset(first);
        if (masked && first.decl == direction) use = std::max<int64_t>(use, first.delay + 1);
        int64_t& of = hidden[node.operands[i]];
        of = std::min(of, use);
      }
    }
  }
}

NodeId MaskedReads::saved(Graph& graph, NodeId id) const {
  const Node node = graph[id];
  if (node.op != Op::Index || graph[node.operands[0]].op != Op::State) return id;
  const StateDecl& state = graph.states[graph[node.operands[0]].decl];
  const std::vector<int64_t>& hidden = hidden_[state.reversed ? 1 : 0];
  const int64_t within = hidden.empty() ? 0 : hidden[id];
  // Of the step alone is what any state is.
  if (within < 2 || within > UINT32_MAX) return id;
  const NodeId init = state.init;
  const NodeId mask = graph.reset(state.reversed, static_cast<uint32_t>(within - 1), node.location);
  const NodeId entry =
      graph[init].type.is_scalar() ? init : graph.index(init, node.begin, node.location);
  return graph.apply(Op::Where, {mask, entry, id}, node.location);
}

}  // namespace rnnc
