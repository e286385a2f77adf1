#include "runtime/explain/graph_picture.h"

#include <algorithm>

#include "ir/graph/places.h"
#include "ir/graph/text.h"
#include "passes/graph/dependence.h"
#include "runtime/explain/repeats.h"

namespace rnnc::explain {
namespace {

using Kind = GraphPicture::Kind;

Kind kind_of(Op op) {
  switch (op) {
    case Op::Input:
    case Op::Valid:
    case Op::Reset:
      return Kind::Input;
    case Op::Param:
      return Kind::Param;
    case Op::State:
      return Kind::State;
    case Op::Constant:
    case Op::Vector:
    case Op::Range:
    case Op::Eye:
      return Kind::Constant;
    case Op::MatMul:
      return Kind::Product;
    default:
      return is_scalar(op)      ? Kind::Elementwise
             : is_reduction(op) ? Kind::Reduction
                                : Kind::Structure;
  }
}

/// Marks what `id` is computed from, and `id`.
void mark_operands(const Graph& graph, NodeId id, std::vector<bool>& marked) {
  std::vector<NodeId> open{id};
  while (!open.empty()) {
    const NodeId at = open.back();
    open.pop_back();
    if (at == kNoNode || marked[at]) continue;
    marked[at] = true;
    const std::vector<NodeId>& operands = graph[at].operands;
    open.insert(open.end(), operands.begin(), operands.end());
  }
}

/// Nodes that only say what states are before the first step: no part of a step.
std::vector<bool> find_initial(const Graph& graph) {
  std::vector<bool> initial(graph.nodes.size(), false);
  std::vector<bool> step(graph.nodes.size(), false);
  for (const StateDecl& state : graph.states) {
    mark_operands(graph, state.init, initial);
    mark_operands(graph, state.next, step);
  }
  for (const OutputDecl& output : graph.outputs) mark_operands(graph, output.value, step);
  for (const ResultDecl& result : graph.results) mark_operands(graph, result.value, step);
  for (NodeId id = 0; id < graph.nodes.size(); ++id) initial[id] = initial[id] && !step[id];
  return initial;
}

std::string states_of(const Graph& graph, const Recurrence& recurrence) {
  std::vector<std::string> names;
  for (const uint32_t state : recurrence.states) names.push_back(graph.states[state].name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string stage_of(const Graph& graph, const Dependence& dependence, NodeId id) {
  if (dependence.variation[id] == Variation::Invariant) return "once";
  const Dependence::StageNodes& stage = dependence.order[dependence.stage[id]];
  if (stage.domain == Domain::Last) return "last";
  if (stage.recurrence == UINT32_MAX) return "parallel";
  return states_of(graph, dependence.recurrences[stage.recurrence]);
}

}  // namespace

int GraphPicture::count(Kind kind) const {
  return static_cast<int>(std::ranges::count(nodes, kind, &Node::kind));
}

GraphPicture picture_of(const Graph& graph) {
  const Dependence dependence = analyse_dependence(graph);
  const std::vector<bool> initial = find_initial(graph);
  const ValueNames names(graph);
  GraphPicture picture;
  std::vector<uint32_t> place(graph.nodes.size());
  const auto add = [&](NodeId id) {
    const Node& node = graph[id];
    place[id] = static_cast<uint32_t>(picture.nodes.size());
    GraphPicture::Node shown{kind_of(node.op), node_label(graph, node), to_string(node.type.shape),
                             stage_of(graph, dependence, id)};
    shown.place = place_of(graph, node.location);
    if (!shown.place.empty()) shown.name = names.of(id);
    const uint32_t equation = node.location.equation;
    shown.local = equation > 0 && equation <= graph.equations.size() &&
                  shown.name == graph.equations[equation - 1].name;
    picture.nodes.push_back(std::move(shown));
    for (const NodeId operand : node.operands) {
      picture.edges.push_back({place[operand], place[id], false});
    }
  };
  // Numbers stand where they are first used, but serve all turns of a loop: they come first.
  for (const bool constants : {true, false}) {
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      if (!initial[id] && (kind_of(graph[id].op) == Kind::Constant) == constants) add(id);
    }
  }
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (graph[id].op != Op::State || initial[id]) continue;
    picture.edges.push_back({place[graph.states[graph[id].decl].next], place[id], true});
  }
  const auto add_output = [&](const std::string& name, NodeId of) {
    const auto id = static_cast<uint32_t>(picture.nodes.size());
    const uint32_t value = place[of];
    picture.nodes.push_back(
        {Kind::Output, name, picture.nodes[value].detail, picture.nodes[value].stage});
    picture.edges.push_back({value, id, false});
  };
  for (const OutputDecl& output : graph.outputs) add_output(output.name, output.value);
  for (const ResultDecl& result : graph.results) add_output(result.name, result.value);
  std::vector<std::string> places;
  for (const GraphPicture::Node& node : picture.nodes) places.push_back(node.place);
  find_repeats(picture, places);
  return picture;
}

std::string_view name_of(GraphPicture::Kind kind) {
  switch (kind) {
    case Kind::Input:
      return "input";
    case Kind::Param:
      return "param";
    case Kind::Constant:
      return "constant";
    case Kind::State:
      return "state";
    case Kind::Product:
      return "product";
    case Kind::Reduction:
      return "reduction";
    case Kind::Elementwise:
      return "elementwise";
    case Kind::Structure:
      return "structure";
    case Kind::Output:
      break;
  }
  return "output";
}

}  // namespace rnnc::explain
