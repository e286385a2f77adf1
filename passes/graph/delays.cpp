// 1. Point each node that reads an input at an earlier step, or a state at t - 2 or before, at the
//    state that holds this value, declaring it and those between on first use.
// 2. An input's first delay takes the input and starts as zero. Every further delay takes the value
//    of the one before it, and starts as that one does.
#include "passes/graph/delays.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>
#include <vector>

namespace rnnc {
namespace {

class Delays {
 public:
  explicit Delays(Graph& graph) : graph_(graph) {
    for (uint32_t s = 0; s < graph.states.size(); ++s) by_name_.emplace(graph.states[s].name, s);
  }

  bool run() {
    bool changed = false;
    const size_t count = graph_.nodes.size();
    for (NodeId id = 0; id < count; ++id) {
      const bool of_state = graph_[id].op == Op::State;
      const uint32_t delay = graph_[id].delay;
      if (delay < (of_state ? 2u : 1u)) continue;
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
  std::map<std::pair<bool, uint32_t>, std::vector<uint32_t>> chains_;
};

}  // namespace

bool run_delays(Graph& graph) {
  return Delays(graph).run();
}

}  // namespace rnnc
