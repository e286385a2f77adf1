// 1. A state is a history if its next value joins its own elements from the second on and one
//    other, and all else that reads it takes single elements.
// 2. Its next value is then the other, and element i of n is what it was n - i steps ago.
// 3. Remove what is left over.
#include "passes/graph/histories.h"

#include <optional>

#include "ir/graph/sweeps.h"
#include "passes/graph/dead_code.h"

namespace rnnc {
namespace {

class Histories {
 public:
  explicit Histories(Graph& graph)
      : graph_(graph), directions_(find_directions(graph)), users_(graph.nodes.size()) {
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      for (const NodeId operand : graph[id].operands) users_[operand].push_back(id);
    }
    for (const OutputDecl& output : graph.outputs) users_[output.value].push_back(kNoNode);
    for (const ResultDecl& result : graph.results) users_[result.value].push_back(kNoNode);
    for (const StateDecl& state : graph.states) users_[state.next].push_back(kNoNode);
  }

  std::vector<int64_t> run() {
    std::vector<int64_t> steps(graph_.states.size(), 1);
    bool changed = false;
    for (uint32_t s = 0; s < graph_.states.size(); ++s) {
      const std::optional<NodeId> newest = newest_element(s);
      if (!newest || !is_read_by_elements(s)) continue;
      steps[s] = *graph_.states[s].type.shape[0].constant();
      read_steps(s, *newest, steps[s]);
      changed = true;
    }
    if (changed) run_dead_code(graph_);
    return steps;
  }

 private:
  bool is_read_of(NodeId id, uint32_t state) const {
    return graph_[id].op == Op::State && graph_[id].decl == state && graph_[id].delay == 1;
  }

  /// What comes behind the state's elements at each step, if it is the only one that is new.
  std::optional<NodeId> newest_element(uint32_t s) const {
    const StateDecl& state = graph_.states[s];
    const Node& next = graph_[state.next];
    const bool starts_as_one = graph_[state.init].op == Op::Constant;
    if (next.op != Op::Concat || next.operands.size() != 2 || !starts_as_one) return std::nullopt;
    const Node& rest = graph_[next.operands[0]];
    const Node& last = graph_[next.operands[1]];
    if (rest.op != Op::Slice || last.op != Op::Stack || last.operands.size() != 1) {
      return std::nullopt;
    }
    const bool by_one = rest.begin == Dim(1) && rest.end == state.type.shape[0];
    if (!by_one || !is_read_of(rest.operands[0], s)) return std::nullopt;
    const bool only_there = users_[state.next].size() == 1 && users_[next.operands[0]].size() == 1;
    const NodeId newest = last.operands[0];
    if (!only_there || directions_[newest] == Direction::Invariant) return std::nullopt;
    return newest;
  }

  bool is_read_by_elements(uint32_t s) const {
    const NodeId rest = graph_[graph_.states[s].next].operands[0];
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (!is_read_of(id, s)) continue;
      for (const NodeId user : users_[id]) {
        if (user == kNoNode || (user != rest && graph_[user].op != Op::Index)) return false;
      }
    }
    return true;
  }

  void read_steps(uint32_t s, NodeId newest, int64_t steps) {
    StateDecl& state = graph_.states[s];
    // All are found first: one that was a step back looks like a read of the whole afterwards.
    std::vector<NodeId> elements;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const Node& node = graph_[id];
      if (node.op == Op::Index && is_read_of(node.operands[0], s)) elements.push_back(id);
    }
    for (const NodeId id : elements) {
      Node& node = graph_.nodes[id];
      const int64_t position = *node.begin.constant();
      node = {.op = Op::State,
              .type = node.type,
              .operands = {},
              .decl = s,
              .delay = static_cast<uint32_t>(steps - position),
              .location = node.location};
    }
    state.type = graph_[newest].type;
    state.next = newest;
  }

  Graph& graph_;
  std::vector<Direction> directions_;
  std::vector<std::vector<NodeId>> users_;  // per node; kNoNode: a state, an output or a result
};

}  // namespace

std::vector<int64_t> make_histories(Graph& graph) {
  return Histories(graph).run();
}

}  // namespace rnnc
