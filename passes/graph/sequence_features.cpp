// Lengths: append the masks, `where`s and reads, and point states and outputs at them.
//
// Resets:
// 1. Order the nodes so that initial values, which depend on no read, come first.
// 2. Copy them in that order. Behind each read of a state put a `where`, which stands for the read
//    from there on. What takes an entry of a history has a `where` of its own in that one's stead,
//    of resets as far back as the entry is: so the history can lie still
//    (passes/graph/histories.h).
//
// Reversal:
// 1. Copy the nodes in order, a Reverse behind each input; states run in reverse from now on.
// 2. Reverse the outputs that vary over time back.
#include "passes/graph/sequence_features.h"

#include <algorithm>
#include <array>

#include "ir/graph/sweeps.h"
#include "passes/graph/rebuild.h"

namespace rnnc {
namespace {

/// One node of a kind for each direction, made on first use.
template <typename Make>
class PerDirection {
 public:
  explicit PerDirection(Make make) : make_(make) {}

  NodeId operator()(bool reversed) {
    NodeId& node = nodes_[reversed ? 1 : 0];
    if (node == kNoNode) node = make_(reversed);
    return node;
  }

 private:
  Make make_;
  std::array<NodeId, 2> nodes_ = {kNoNode, kNoNode};
};

/// Nodes that initial values of states are computed from first, then the rest, both ascending.
std::vector<NodeId> initial_values_first(const Graph& graph) {
  std::vector<bool> initial(graph.nodes.size(), false);
  for (const StateDecl& state : graph.states) initial[state.init] = true;
  for (NodeId id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;) {
    if (!initial[id]) continue;
    for (NodeId operand : graph[id].operands) initial[operand] = true;
  }
  std::vector<NodeId> order = all_nodes(graph);
  std::ranges::stable_partition(order, [&](NodeId id) { return initial[id]; });
  return order;
}

/// Histories (passes/graph/delays.h): whose value joins its own elements but the first and one
/// more.
std::vector<bool> states_that_hand_on(const Graph& graph) {
  std::vector<bool> result;
  for (uint32_t s = 0; s < graph.states.size(); ++s) {
    const Node& next = graph[graph.states[s].next];
    result.push_back(false);
    if (next.op != Op::Concat || next.operands.size() != 2) continue;
    const Node& rest = graph[next.operands[0]];
    const Node& newest = graph[next.operands[1]];
    if (rest.op != Op::Slice || rest.begin != Dim(1) || newest.op != Op::Stack) continue;
    const Node& read = graph[rest.operands[0]];
    const bool is_own = read.op == Op::State && read.decl == s;
    result.back() = is_own && newest.operands.size() == 1 && rest.end == read.type.shape[0] &&
                    read.type.shape[0].constant();
  }
  return result;
}

}  // namespace

bool run_lengths(Graph& graph) {
  PerDirection valid([&](bool reversed) { return graph.valid(reversed); });
  for (uint32_t s = 0; s < graph.states.size(); ++s) {
    const NodeId kept = graph.state(s, 1, graph.states[s].location);
    const NodeId mask = valid(graph.states[s].reversed);
    const NodeId next = graph.states[s].next;
    graph.states[s].next = graph.apply(Op::Where, {mask, next, kept}, graph.nodes[next].location);
  }
  for (OutputDecl& output : graph.outputs) {
    const NodeId mask = valid(/*reversed=*/false);
    const NodeId zero = graph.constant(0, output.location);
    output.value = graph.apply(Op::Where, {mask, output.value, zero}, output.location);
  }
  return !graph.states.empty() || !graph.outputs.empty();
}

bool run_resets(Graph& graph) {
  bool changed = false;
  PerDirection reset([&](bool reversed) { return graph.reset(reversed); });
  const std::vector<Node> old = graph.nodes;
  const std::vector<bool> hands_on = states_that_hand_on(graph);
  std::vector<NodeId> reads(old.size(), kNoNode);  // of states, without a mask
  const auto emit = [&](Node node, NodeId id, const std::vector<NodeId>& renumbered) {
    const NodeId whole = node.op == Op::Index ? old[id].operands[0] : kNoNode;
    const bool is_entry =
        whole != kNoNode && old[whole].op == Op::State && hands_on[old[whole].decl];
    if (is_entry) {
      const StateDecl& state = graph.states[old[whole].decl];
      const int64_t position = *node.begin.constant();
      const auto delay = static_cast<uint32_t>(*state.type.shape[0].constant() - position);
      const NodeId init = renumbered[state.init];
      const bool is_one = graph[init].type.is_scalar();
      const NodeId hidden = is_one ? init : graph.index(init, position, node.location);
      const NodeId mask = graph.reset(state.reversed, delay - 1, node.location);
      const NodeId entry = graph.index(reads[whole], position, node.location);
      return graph.apply(Op::Where, {mask, hidden, entry}, node.location);
    }
    const NodeId read = append_node(graph, std::move(node));
    if (graph[read].op != Op::State) return read;
    changed = true;
    reads[id] = read;
    const StateDecl& state = graph.states[graph[read].decl];
    const NodeId mask = reset(state.reversed);
    return graph.apply(Op::Where, {mask, renumbered[state.init], read}, graph[read].location);
  };
  rebuild(graph, initial_values_first(graph), emit);
  return changed;
}

bool run_in_reverse(Graph& graph) {
  const std::vector<Direction> directions = find_directions(graph);
  std::vector<bool> varies;  // per output
  for (const OutputDecl& output : graph.outputs) {
    varies.push_back(directions[output.value] != Direction::Invariant);
  }
  for (StateDecl& state : graph.states) state.reversed = true;

  rebuild(graph, all_nodes(graph), [&](Node node, NodeId, const auto&) {
    const NodeId copy = append_node(graph, std::move(node));
    if (graph[copy].op != Op::Input) return copy;
    return graph.apply(Op::Reverse, {copy}, graph[copy].location);
  });
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (!varies[i]) continue;
    OutputDecl& output = graph.outputs[i];
    output.value = graph.apply(Op::Reverse, {output.value}, output.location);
  }
  return true;
}

}  // namespace rnnc
