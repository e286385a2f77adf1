// 1. A state is a history if its next value joins its own elements but the first and, behind them,
//    one other, or but the last and, before them, one other, and all else that reads it takes
//    single elements. With lengths it does so at valid steps, and at others stays as it is, or,
//    being an adjoint, is the sum of what it is at the former and the latter.
// 2. With resets its elements become what it starts as. It need not show that where all that is
//    made of an element is masked by the resets since that was new, or where, in an adjoint, what
//    is new is zero if a reset comes before it has gone through: follow the one and the other
//    through the Graph.
// 3. Its next value is then the other, at steps that are not valid what falls out of it, and each
//    element what that was some steps ago.
// 4. Remove what is left over.
#include "passes/graph/histories.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "ir/graph/sweeps.h"
#include "passes/graph/dead_code.h"
#include "passes/graph/history_parts.h"
#include "passes/graph/rebuild.h"

namespace rnnc {
namespace {

class Histories {
 public:
  Histories(Graph& graph, const std::vector<StatePart>& parts)
      : graph_(graph),
        parts_(parts),
        directions_(find_directions(graph)),
        users_(graph.nodes.size()),
        falls_(graph.nodes.size(), 0) {
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      for (const NodeId operand : graph[id].operands) users_[operand].push_back(id);
    }
    for (const OutputDecl& output : graph.outputs) users_[output.value].push_back(kNoNode);
    for (const ResultDecl& result : graph.results) users_[result.value].push_back(kNoNode);
    for (const StateDecl& state : graph.states) users_[state.next].push_back(kNoNode);
    const auto is_reset = [](const Node& node) { return node.op == Op::Reset; };
    has_zeros_ = graph.descending && std::ranges::any_of(graph.nodes, is_reset);
    if (!has_zeros_) return;
    for (const bool reversed : {false, true}) find_zeros(reversed);
  }

  std::vector<StateSteps> run() {
    std::vector<StateSteps> steps(graph_.states.size());
    bool changed = false;
    for (uint32_t s = 0; s < graph_.states.size(); ++s) {
      const StatePart& part = parts_[s];
      changed = changed || part.is_part();
      steps[s] = {.of = part.of, .before = part.before, .after = part.after};
      const std::optional<History> history = history_of(s);
      if (history && is_read_by_elements(s, *history)) {
        steps[s].count = *graph_.states[s].type.shape[0].constant();
        steps[s].newest_first = history->newest_first;
        steps[s].turns = history->valid != kNoNode;
        steps[s].hiding = history->hiding;
        read_steps(s, *history, steps[s]);
        changed = true;
      } else if (part.count == 1 && part.is_hidden && part.after > 0) {
        steps[s].hiding = hiding_of(s);
      }
      if (part.is_part()) find_falls(s);
    }
    if (changed) run_dead_code(graph_);
    return steps;
  }

 private:
  /// Of a state's next value.
  struct History {
    NodeId newest = kNoNode;  // the element that is new
    bool newest_first = false;
    NodeId valid = kNoNode;  // at which steps, if not at all
    NodeId init = kNoNode;   // of an element
    Hiding hiding = Hiding::None;
    /// Nodes that have more of it than an element, each read by the next one alone.
    std::vector<NodeId> wholes = {};
  };

  bool is_read_of(NodeId id, uint32_t state) const {
    return graph_[id].op == Op::State && graph_[id].decl == state && graph_[id].delay == 1;
  }
  bool is_zero(NodeId id) const { return graph_[id].op == Op::Constant && graph_[id].value == 0; }
  bool is_valid_mask(NodeId id) const { return graph_[id].op == Op::Valid; }

  /// What the state becomes at valid steps, if it stays as it is at others; else its next value.
  NodeId next_if_valid(uint32_t s, History& history) const {
    const NodeId next = graph_.states[s].next;
    const Node& node = graph_[next];
    if (node.op == Op::Where && is_valid_mask(node.operands[0]) &&
        is_read_of(node.operands[2], s)) {
      history.valid = node.operands[0];
      history.wholes.push_back(next);
      return node.operands[1];
    }
    if (node.op != Op::Add) return next;
    for (const size_t i : {0, 1}) {
      const Node& moved = graph_[node.operands[i]];
      const Node& kept = graph_[node.operands[1 - i]];
      if (moved.op != Op::Where || kept.op != Op::Where) continue;
      const NodeId mask = moved.operands[0];
      const bool is_one = is_valid_mask(mask) && kept.operands[0] == mask &&
                          is_zero(moved.operands[2]) && is_zero(kept.operands[1]) &&
                          is_read_of(kept.operands[2], s);
      if (!is_one) continue;
      history.valid = mask;
      history.wholes = {node.operands[1 - i], node.operands[i], next};
      return moved.operands[1];
    }
    return next;
  }

  /// What all elements of a value along its first axis are, if they are one.
  NodeId element_of(NodeId id) const {
    const Node& node = graph_[id];
    if (node.op == Op::Constant) return id;
    if (node.op == Op::Slice) return element_of(node.operands[0]);
    if (node.op != Op::Stack && node.op != Op::Concat) return kNoNode;
    NodeId element = kNoNode;
    for (const NodeId operand : node.operands) {
      const NodeId of = node.op == Op::Stack ? operand : element_of(operand);
      if (of == kNoNode || (element != kNoNode && of != element)) return kNoNode;
      element = of;
    }
    return element;
  }

  bool is_same(NodeId a, NodeId b) const {
    const bool constants = graph_[a].op == Op::Constant && graph_[b].op == Op::Constant;
    return a == b || (constants && graph_[a].value == graph_[b].value);
  }

  /// Of the state's direction.
  bool is_reset_mask(NodeId id, uint32_t s) const {
    return graph_[id].op == Op::Reset && (graph_[id].decl != 0) == graph_.states[s].reversed;
  }

  Hiding hiding_of(uint32_t s) const {
    return graph_.states[s].reversed ? Hiding::ReversedResets : Hiding::Resets;
  }

  /// What is behind a mask that makes elements what they start as where a sequence begins anew.
  NodeId unless_reset(NodeId id, uint32_t s, History& history) const {
    const Node& node = graph_[id];
    const bool masked = node.op == Op::Where && is_reset_mask(node.operands[0], s) &&
                        graph_[node.operands[0]].delay == 0;
    if (!masked) return id;
    const NodeId hidden = element_of(node.operands[1]);
    if (hidden == kNoNode || !is_same(hidden, history.init)) return id;
    history.hiding = hiding_of(s);
    history.wholes.push_back(node.operands[2]);
    return node.operands[2];
  }

  /// Elements that the state keeps: masked too, where its next value is.
  NodeId kept_elements(NodeId id, uint32_t s, History& history) const {
    history.wholes.push_back(id);
    id = unless_reset(id, s, history);
    const Node& node = graph_[id];
    const bool masked = node.op == Op::Where && history.valid != kNoNode &&
                        node.operands[0] == history.valid && is_zero(node.operands[2]);
    if (!masked) return id;
    history.wholes.push_back(node.operands[1]);
    return unless_reset(node.operands[1], s, history);
  }

  std::optional<History> history_of(uint32_t s) const {
    const StateDecl& state = graph_.states[s];
    History history;
    history.init = element_of(state.init);
    if (history.init == kNoNode) return std::nullopt;  // it starts as several
    const NodeId joined = next_if_valid(s, history);
    const Node& next = graph_[joined];
    if (next.op != Op::Concat || next.operands.size() != 2) return std::nullopt;
    history.wholes.push_back(joined);
    history.newest_first = graph_[next.operands[0]].op == Op::Stack;
    const Node& rest =
        graph_[kept_elements(next.operands[history.newest_first ? 1 : 0], s, history)];
    const Node& other = graph_[next.operands[history.newest_first ? 0 : 1]];
    if (rest.op != Op::Slice || other.op != Op::Stack || other.operands.size() != 1) {
      return std::nullopt;
    }
    const Dim count = state.type.shape[0];
    const bool by_one = history.newest_first ? rest.begin == Dim(0) && rest.end == count - Dim(1)
                                             : rest.begin == Dim(1) && rest.end == count;
    if (!by_one || !is_read_of(rest.operands[0], s)) return std::nullopt;
    const bool only_there = std::ranges::all_of(
        history.wholes, [this](NodeId whole) { return users_[whole].size() == 1; });
    history.newest = other.operands[0];
    if (!only_there || directions_[history.newest] == Direction::Invariant) return std::nullopt;
    if (history.hiding != Hiding::None && !is_hidden_elsewhere(s, history)) return std::nullopt;
    return history;
  }

  // ---- Resets ----

  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  /// Whether resets need not change what the history has.
  bool is_hidden_elsewhere(uint32_t s, const History& history) const {
    const int64_t count = *graph_.states[s].type.shape[0].constant();
    if (!graph_.descending) return !history.newest_first && are_elements_masked(s, history, count);
    const std::vector<int64_t>& zeros = zero_within_[graph_.states[s].reversed ? 1 : 0];
    return is_zero(history.init) && zeros[history.newest] >= count;
  }

  /// Whether nothing sees an element where a reset has come since it was new. Of each node: how far
  /// back the oldest element is that it shows, and would not if that had changed at a reset.
  bool are_elements_masked(uint32_t s, const History& history, int64_t count) const {
    std::vector<int64_t> shows(graph_.nodes.size(), 0);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const Node& node = graph_[id];
      if (node.op == Op::Index && is_read_of(node.operands[0], s)) {
        shows[id] = count - *node.begin.constant();
        continue;
      }
      if (std::ranges::find(history.wholes, id) != history.wholes.end()) continue;
      for (size_t i = 0; i < node.operands.size(); ++i) {
        int64_t of = shows[node.operands[i]];
        const bool masked = node.op == Op::Where && i == 2 && is_reset_mask(node.operands[0], s) &&
                            graph_[node.operands[0]].delay + 1 >= of;
        if (masked) of = 0;
        if (of > 0 && (node.op == Op::Reverse || node.op == Op::Earlier)) of = kNever;
        shows[id] = std::max(shows[id], of);
      }
    }
    const auto hides = [&shows](NodeId id) { return shows[id] == 0; };
    const auto ends = [&](const auto& decls) {
      return std::ranges::all_of(decls, [&](const auto& decl) { return hides(decl.value); });
    };
    return hides(history.newest) && ends(graph_.outputs) && ends(graph_.results) &&
           std::ranges::all_of(graph_.states, hides, &StateDecl::next);
  }

  /// Within how many steps of a reset, its own included, each value is zero for sure.
  void find_zeros(bool reversed) {
    std::vector<int64_t>& zeros = zero_within_[reversed ? 1 : 0];
    zeros.clear();
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const Node& node = graph_[id];
      const bool runs_so = node.op == Op::State && graph_.states[node.decl].reversed == reversed;
      zeros.push_back(runs_so ? falls_[id] : zero_within(node, reversed, zeros));
    }
  }

  /// What falls out of a part was new as many steps ago as that has.
  void find_falls(uint32_t s) {
    const StatePart& part = parts_[s];
    if (!has_zeros_) return;
    const bool reversed = graph_.states[s].reversed;
    const int64_t within = zero_within_[reversed ? 1 : 0][part.newest] - part.count;
    falls_.resize(graph_.nodes.size(), 0);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const Node& node = graph_[id];
      const bool falls = node.op == Op::State && node.decl == s && node.delay == part.count;
      if (falls) falls_[id] = std::max<int64_t>(within, 0);
    }
    find_zeros(reversed);
  }

  int64_t zero_within(const Node& node, bool reversed, const std::vector<int64_t>& zeros) const {
    const auto of = [&](size_t operand) { return zeros[node.operands[operand]]; };
    switch (node.op) {
      case Op::Constant:
        return node.value == 0 ? kNever : 0;
      case Op::Where: {
        const Node& mask = graph_[node.operands[0]];
        const bool of_resets = mask.op == Op::Reset && (mask.decl != 0) == reversed;
        const int64_t within = of_resets ? int64_t{mask.delay} + 1 : 0;
        return std::min(of(1), std::max(of(2), within));
      }
      case Op::Add:
      case Op::Sub:
        return std::min(of(0), of(1));
      case Op::Mul:
      case Op::MatMul:
        return std::max(of(0), of(1));
      case Op::Neg:
      case Op::Broadcast:
      case Op::Slice:
      case Op::Index:
      case Op::Sum:
        return of(0);
      default:
        return 0;
    }
  }

  bool is_read_by_elements(uint32_t s, const History& history) const {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (!is_read_of(id, s)) continue;
      for (const NodeId user : users_[id]) {
        const bool is_whole = std::ranges::find(history.wholes, user) != history.wholes.end();
        if (user == kNoNode || (!is_whole && graph_[user].op != Op::Index)) return false;
      }
    }
    return true;
  }

  void read_steps(uint32_t s, const History& history, const StateSteps& steps) {
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
    state.type = graph_[history.newest].type;
    state.init = history.init;
    state.next = history.newest;
    if (history.valid == kNoNode) return;
    const auto last =
        std::ranges::find_if(elements, [&](NodeId id) { return graph_[id].delay == steps.count; });
    const NodeId falling = last != elements.end()
                               ? *last
                               : append_node(graph_, {.op = Op::State,
                                                      .type = state.type,
                                                      .operands = {},
                                                      .decl = s,
                                                      .delay = static_cast<uint32_t>(steps.count),
                                                      .location = state.location});
    graph_.states[s].next =
        graph_.apply(Op::Where, {history.valid, history.newest, falling}, state.location);
  }

  Graph& graph_;
  const std::vector<StatePart>& parts_;
  std::vector<Direction> directions_;
  bool has_zeros_ = false;
  std::array<std::vector<int64_t>, 2> zero_within_;  // of adjoints, by direction: per node
  std::vector<std::vector<NodeId>> users_;  // per node; kNoNode: a state, an output or a result
  std::vector<int64_t> falls_;  // per node, of what falls out of a part: within how many it is zero
};

}  // namespace

std::vector<StateSteps> make_histories(Graph& graph) {
  const std::vector<StatePart> parts = part_histories(graph);
  return Histories(graph, parts).run();
}

}  // namespace rnnc
