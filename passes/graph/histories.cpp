// 1. A state is a history if its next value joins its own elements but the first and, behind them,
//    one other, or but the last and, before them, one other, and all else that reads it takes
//    single elements.
// 2. Its next value is then the other, and each element what that was some steps ago.
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

  std::vector<StateSteps> run() {
    std::vector<StateSteps> steps(graph_.states.size());
    bool changed = false;
    for (uint32_t s = 0; s < graph_.states.size(); ++s) {
      const std::optional<History> history = history_of(s);
      if (!history || !is_read_by_elements(s, history->rest)) continue;
      steps[s] = {*graph_.states[s].type.shape[0].constant(), history->newest_first};
      read_steps(s, history->newest, steps[s]);
      changed = true;
    }
    if (changed) run_dead_code(graph_);
    return steps;
  }

 private:
  bool is_read_of(NodeId id, uint32_t state) const {
    return graph_[id].op == Op::State && graph_[id].decl == state && graph_[id].delay == 1;
  }

  /// Of a state's next value.
  struct History {
    NodeId newest = kNoNode;  // the element that is new
    NodeId rest = kNoNode;    // those that it had
    bool newest_first = false;
  };

  std::optional<History> history_of(uint32_t s) const {
    const StateDecl& state = graph_.states[s];
    const Node& next = graph_[state.next];
    const bool starts_as_one = graph_[state.init].op == Op::Constant;
    if (next.op != Op::Concat || next.operands.size() != 2 || !starts_as_one) return std::nullopt;
    History history;
    history.newest_first = graph_[next.operands[0]].op == Op::Stack;
    history.rest = next.operands[history.newest_first ? 1 : 0];
    const Node& rest = graph_[history.rest];
    const Node& other = graph_[next.operands[history.newest_first ? 0 : 1]];
    if (rest.op != Op::Slice || other.op != Op::Stack || other.operands.size() != 1) {
      return std::nullopt;
    }
    const Dim count = state.type.shape[0];
    const bool by_one = history.newest_first ? rest.begin == Dim(0) && rest.end == count - Dim(1)
                                             : rest.begin == Dim(1) && rest.end == count;
    if (!by_one || !is_read_of(rest.operands[0], s)) return std::nullopt;
    const bool only_there = users_[state.next].size() == 1 && users_[history.rest].size() == 1;
    history.newest = other.operands[0];
    if (!only_there || directions_[history.newest] == Direction::Invariant) return std::nullopt;
    return history;
  }

  bool is_read_by_elements(uint32_t s, NodeId rest) const {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (!is_read_of(id, s)) continue;
      for (const NodeId user : users_[id]) {
        if (user == kNoNode || (user != rest && graph_[user].op != Op::Index)) return false;
      }
    }
    return true;
  }

  void read_steps(uint32_t s, NodeId newest, const StateSteps& steps) {
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
              .delay = static_cast<uint32_t>(steps.delay_of(position)),
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

std::vector<StateSteps> make_histories(Graph& graph) {
  return Histories(graph).run();
}

}  // namespace rnnc
