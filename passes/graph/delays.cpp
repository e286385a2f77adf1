// 1. Find what is read too far back for a state a step.
// 2. Point each other node that reads an input at an earlier step, or a state at t - 2 or before, at the
//    state that holds this value, declaring it and those between on first use.
// 3. An input's first delay takes the input and starts as zero. Every further delay takes the value
//    of the one before it, and starts as that one does.
// 4. Histories: copy the nodes in order; those that read far back take an element of a history, and
//    the first such node of each declares it.
// 5. A history takes its own elements from the second on, and behind them the input or the state.
#include "passes/graph/delays.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "passes/graph/rebuild.h"

namespace rnnc {
namespace {

/// An input or a state.
using Source = std::pair<bool, uint32_t>;  // whether it is a state, and its number

/// What a node reads earlier values of, if it does: of a state those before t - 1.
std::optional<Source> delayed_source(const Node& node) {
  const bool of_state = node.op == Op::State;
  const bool reads = of_state || node.op == Op::Input;
  if (!reads || node.delay < (of_state ? 2u : 1u)) return std::nullopt;
  return Source(of_state, node.decl);
}

/// "h" for "h"; "u" for "u@1", with which the Graph keeps a local or a layer's input.
std::string_view delayed_name(std::string_view name) {
  return name.substr(0, name.find('@'));
}

/// How far back each is read.
std::map<Source, uint32_t> find_reach(const Graph& graph) {
  std::map<Source, uint32_t> reach;
  for (const Node& node : graph.nodes) {
    const std::optional<Source> source = delayed_source(node);
    if (source) reach[*source] = std::max(reach[*source], node.delay);
  }
  return reach;
}

bool needs_history(const std::map<Source, uint32_t>& reach, const Node& node) {
  const std::optional<Source> source = delayed_source(node);
  return source && reach.at(*source) > kMostDelayStates;
}

class Delays {
 public:
  explicit Delays(Graph& graph) : graph_(graph) {
    for (uint32_t s = 0; s < graph.states.size(); ++s) by_name_.emplace(graph.states[s].name, s);
  }

  bool run() {
    bool changed = false;
    const size_t count = graph_.nodes.size();
    const std::map<Source, uint32_t> reach = find_reach(graph_);
    for (NodeId id = 0; id < count; ++id) {
      if (!delayed_source(graph_[id]) || needs_history(reach, graph_[id])) continue;
      const uint32_t state = delayed(id);
      Node& node = graph_.nodes[id];
      node.op = Op::State;
      node.decl = state;
      node.delay = 1;
      changed = true;
    }
    return changed;
  }

 private:
  /// The state that has, one step ago, what the node reads.
  uint32_t delayed(NodeId id) {
    const Node& node = graph_[id];
    const bool of_state = node.op == Op::State;
    const uint32_t delay = node.delay;
    std::vector<uint32_t>& chain = chains_[{of_state, node.decl}];
    if (chain.empty()) chain.push_back(of_state ? node.decl : first_delay(node));
    while (chain.size() < delay) chain.push_back(delay_by_one(chain.back(), of_state));
    return chain[delay - 1];
  }

  /// The state that holds the input which `node` reads, as it was one step ago.
  uint32_t first_delay(const Node& node) {
    const uint32_t input = node.decl;
    const auto [known, is_new] = declare(graph_.inputs[input].name + "@1");
    if (!is_new) return known;
    StateDecl& state = graph_.states[known];
    state.type = graph_.inputs[input].type;
    state.location = node.location;
    state.init = graph_.constant(0, state.location);
    state.next = graph_.input(input, 0, state.location);
    return known;
  }

  /// The state that holds the value of state number `of` one step earlier. If that is a delay of a
  /// state, it stood at that one's initial value before the first step; inputs were zero.
  uint32_t delay_by_one(uint32_t of, bool of_state) {
    const auto [known, is_new] = declare(name_of_delay(graph_.states[of].name));
    if (!is_new) return known;
    const NodeId next = graph_.state(of, 1, graph_.states[of].location);
    const std::string name = graph_.states[known].name;
    StateDecl& state = graph_.states[known];
    state = graph_.states[of];
    state.name = name;
    state.next = next;
    if (of_state) state.delay_of = state.delay_of.value_or(of);
    return known;
  }

  /// The state of this name, and whether it was declared only now.
  std::pair<uint32_t, bool> declare(std::string name) {
    const auto number = static_cast<uint32_t>(graph_.states.size());
    const auto [entry, is_new] = by_name_.emplace(name, number);
    if (is_new) graph_.states.emplace_back().name = std::move(name);
    return {entry->second, is_new};
  }

  /// "h@2" for "h", "h@3" for "h@2".
  static std::string name_of_delay(const std::string& name) {
    const size_t at = std::min(name.rfind('@'), name.size());
    uint32_t delay = 1;
    if (at < name.size()) std::from_chars(&name[at] + 1, name.data() + name.size(), delay);
    return fmt::format("{}@{}", name.substr(0, at), delay + 1);
  }

  Graph& graph_;
  std::map<std::string, uint32_t> by_name_;
  /// Of an input or a state: the states that hold its values of one step ago, two and so on.
  std::map<Source, std::vector<uint32_t>> chains_;
};

class LongDelays {
 public:
  explicit LongDelays(Graph& graph) : graph_(graph), reach_(find_reach(graph)) {}

  bool run() {
    const auto far = [this](const Node& node) { return needs_history(reach_, node); };
    if (std::ranges::none_of(graph_.nodes, far)) return false;
    rebuild(graph_, all_nodes(graph_), [&](Node node, NodeId, const auto&) {
      return far(node) ? read(node) : append_node(graph_, std::move(node));
    });
    for (const auto& [source, history] : histories_) declare(source, history);
    return true;
  }

 private:
  struct History {
    uint32_t number = 0;
    NodeId value = kNoNode;  // before the step
    SourceLocation location;
  };

  int64_t length(const Source& source) const { return reach_.at(source) - (source.first ? 1 : 0); }

  /// The element that `node` reads, the last being the one of the step before, of a state the one
  /// before that.
  NodeId read(const Node& node) {
    const Source source = *delayed_source(node);
    const auto [found, is_new] = histories_.try_emplace(source);
    History& history = found->second;
    if (is_new) {
      Type type = node.type;
      type.shape.insert(type.shape.begin(), length(source));
      history = {count_++, kNoNode, node.location};
      history.value = append_node(graph_, {.op = Op::State,
                                           .type = std::move(type),
                                           .operands = {},
                                           .decl = history.number,
                                           .delay = 1,
                                           .location = node.location});
    }
    return graph_.index(history.value, int64_t{reach_.at(source)} - node.delay, node.location);
  }

  void declare(const Source& source, const History& history) {
    const auto [of_state, number] = source;
    const NodeId newest = of_state ? graph_.state(number, 1, history.location)
                                   : graph_.input(number, 0, history.location);
    const int64_t entries = length(source);
    const NodeId rest = graph_.slice(history.value, 1, entries, history.location);
    const NodeId last = graph_.apply(Op::Stack, {newest}, history.location);
    StateDecl state;
    state.type = graph_[history.value].type;
    state.location = history.location;
    state.next = graph_.apply(Op::Concat, {rest, last}, history.location);
    if (of_state) {
      const StateDecl& of = graph_.states[number];
      state.name = delayed_name(of.name);
      state.init = repeat(of.init, of.type, entries);
      state.reversed = of.reversed;
      state.delay_of = of.delay_of.value_or(number);
    } else {
      state.name = graph_.inputs[number].name;
      state.init = graph_.constant(0, history.location);
    }
    state.name += "@history";
    if (graph_.states.size() <= history.number) graph_.states.resize(history.number + 1);
    graph_.states[history.number] = std::move(state);
  }

  /// An initial value of all entries: a scalar as it is, else doubled until there are enough.
  NodeId repeat(NodeId init, const Type& entry, int64_t entries) {
    if (entry.is_scalar() || graph_[init].type.is_scalar()) return init;
    NodeId all = graph_.apply(Op::Stack, {init}, graph_[init].location);
    for (int64_t count = 1; count < entries;) {
      const int64_t more = std::min(count, entries - count);
      const NodeId some = more == count ? all : graph_.slice(all, 0, more, graph_[init].location);
      all = graph_.apply(Op::Concat, {all, some}, graph_[init].location);
      count += more;
    }
    return all;
  }

  Graph& graph_;
  std::map<Source, uint32_t> reach_;
  std::map<Source, History> histories_;
  uint32_t count_ = static_cast<uint32_t>(graph_.states.size());
};

}  // namespace

bool run_delays(Graph& graph) {
  const bool short_ones = Delays(graph).run();
  const bool long_ones = LongDelays(graph).run();
  return short_ones || long_ones;
}

}  // namespace rnnc
