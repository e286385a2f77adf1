#include "passes/gradient/step_facts.h"

#include <algorithm>

namespace rnnc {
namespace {

NodeId read_through_broadcasts(const Graph& graph, NodeId id) {
  while (graph[id].op == Op::Broadcast) id = graph[id].operands[0];
  return id;
}

std::optional<uint32_t> output_of(const Graph& graph, uint32_t state) {
  const auto output =
      std::ranges::find(graph.outputs, graph.states[state].next, &OutputDecl::value);
  if (output == graph.outputs.end()) return std::nullopt;
  return static_cast<uint32_t>(output - graph.outputs.begin());
}

}  // namespace

StepFacts::StepFacts(const Graph& graph, const DifferentiateOptions& options)
    : directions(find_directions(graph)), follows(graph.states.size(), false) {
  for (const Direction direction : directions) varies.push_back(direction != Direction::Invariant);
  lengths = std::ranges::any_of(graph.nodes, [](const Node& n) { return n.op == Op::Valid; });
  find_active(graph, options);
  for (uint32_t s = 0; s < graph.states.size(); ++s) {
    const bool from_zero = !options.given[s] && begins_with_zero(graph, s);
    outputs.push_back(from_zero && options.outputs ? output_of(graph, s) : std::nullopt);
    may_follow_.push_back(from_zero && !outputs[s] && !options.in_pieces);
  }
}

void StepFacts::let_follow(const Graph& graph, const std::vector<bool>& needed,
                           const std::vector<bool>& multiplied) {
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph[id];
    if (node.op != Op::State || !needed[id] || !may_follow_[node.decl]) continue;
    const NodeId next = graph.states[node.decl].next;
    const bool is_there = graph[next].op == Op::Input || graph[next].op == Op::State;
    if (is_there || !varies[next] || reversed(next)) continue;
    follows[node.decl] = needed[next] && multiplied[next];
  }
}

std::vector<bool> StepFacts::followed(const Graph& graph) const {
  std::vector<bool> nodes(graph.nodes.size(), false);
  for (uint32_t s = 0; s < graph.states.size(); ++s) {
    if (follows[s]) nodes[graph.states[s].next] = true;
  }
  return nodes;
}

std::vector<bool> StepFacts::read_later(const Graph& graph) const {
  std::vector<bool> nodes;
  for (const Node& node : graph.nodes) {
    nodes.push_back(node.op == Op::State && (outputs[node.decl] || follows[node.decl]));
  }
  return nodes;
}

/// And is the value of the step before from then on.
bool StepFacts::begins_with_zero(const Graph& graph, uint32_t state) const {
  const StateDecl& decl = graph.states[state];
  const NodeId init = read_through_broadcasts(graph, decl.init);
  const bool zero = graph[init].op == Op::Constant && graph[init].value == 0;
  return zero && !decl.reversed && !decl.delay_of && !lengths;
}

/// What depends on something that is wanted, through states too.
void StepFacts::find_active(const Graph& graph, const DifferentiateOptions& options) {
  active.assign(graph.nodes.size(), false);
  active_states.assign(graph.states.size(), false);
  for (size_t s = 0; s < graph.states.size(); ++s) {
    active_states[s] = options.given[s] && options.initial_states[s];
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      const Node& node = graph[id];
      bool is_active = std::ranges::any_of(node.operands, [&](NodeId o) { return active[o]; });
      if (node.op == Op::Param) is_active = options.params[node.decl];
      if (node.op == Op::Input) is_active = options.inputs[node.decl];
      if (node.op == Op::State) is_active = active_states[node.decl];
      if (node.op == Op::StopGradient) is_active = false;
      active[id] = is_active;
    }
    for (size_t s = 0; s < graph.states.size(); ++s) {
      const StateDecl& state = graph.states[s];
      const std::optional<uint32_t>& of = state.delay_of;
      const bool is_active = active[state.next] || active[state.init] || (of && active_states[*of]);
      if (!is_active || active_states[s]) continue;
      active_states[s] = true;
      changed = true;
    }
  }
}

}  // namespace rnnc
