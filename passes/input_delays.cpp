// 1. Point each node that reads an input at an earlier step at that input's state, declaring it on
//    first use.
// 2. Give the new states their values: the input now, and zero before the first step.
#include "passes/input_delays.h"

#include <algorithm>

namespace rnnc {
namespace {

/// "x.before", or a longer name where that one is taken.
std::string free_name(const Graph& graph, const std::string& input) {
  const auto taken = [&](const std::string& name) {
    const auto has_name = [&](const auto& decl) { return decl.name == name; };
    return std::ranges::any_of(graph.inputs, has_name) ||
           std::ranges::any_of(graph.params, has_name) ||
           std::ranges::any_of(graph.states, has_name);
  };
  std::string name = input + ".before";
  while (taken(name)) name += '_';
  return name;
}

}  // namespace

bool run_input_delays(Graph& graph) {
  constexpr uint32_t kNoState = UINT32_MAX;
  std::vector<uint32_t> state_of(graph.inputs.size(), kNoState);
  for (Node& node : graph.nodes) {
    if (node.op != Op::Input || node.delay == 0) continue;
    uint32_t& state = state_of[node.decl];
    if (state == kNoState) {
      const InputDecl& input = graph.inputs[node.decl];
      state = static_cast<uint32_t>(graph.states.size());
      graph.states.push_back(
          {free_name(graph, input.name), input.type, kNoNode, kNoNode, node.location});
    }
    node.op = Op::State;
    node.decl = state;
  }

  bool changed = false;
  for (uint32_t input = 0; input < state_of.size(); ++input) {
    if (state_of[input] == kNoState) continue;
    StateDecl& state = graph.states[state_of[input]];
    state.init = graph.constant(0, state.location);
    state.next = graph.input(input, 0, state.location);
    changed = true;
  }
  return changed;
}

}  // namespace rnnc
