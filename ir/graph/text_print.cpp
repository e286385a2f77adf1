#include "ir/graph/text.h"

namespace rnnc {
namespace {

// Broken graphs print too: what the verifier rejects must be seen.
template <typename Decl>
std::string name_of(const std::vector<Decl>& decls, uint32_t index) {
  return index < decls.size() ? decls[index].name : fmt::format("?{}", index);
}

/// What stands between the op's name and its operands.
std::string attributes(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::Input:
      return " " + name_of(graph.inputs, node.decl);
    case Op::Param:
      return " " + name_of(graph.params, node.decl);
    case Op::State:
    case Op::Final:
      return " " + name_of(graph.states, node.decl);
    case Op::Constant:
      return fmt::format(" {}", node.value);  // the shortest text that reads back exactly
    case Op::Vector:
      return fmt::format(" {}", fmt::join(node.values, ", "));
    case Op::Valid:
    case Op::Reset:
      return node.decl == 0 ? "" : " reversed";
    default:
      return "";
  }
}

/// What stands behind the operands.
std::string positions(const Node& node) {
  if (node.op == Op::Index) return " at " + node.begin.to_string();
  if (node.op != Op::Slice) return "";
  return fmt::format(" from {} to {}", node.begin.to_string(), node.end.to_string());
}

std::string print_node(const Graph& graph, const Node& node) {
  std::string text(info(node.op).name);
  text += attributes(graph, node);
  if (node.delay > 0) text += fmt::format(" @ {}", node.delay);
  for (size_t i = 0; i < node.operands.size(); ++i) {
    text += fmt::format("{} %{}", i == 0 ? "" : ",", node.operands[i]);
  }
  return text + positions(node) + " : " + to_string(node.type.shape);
}

template <typename Decl>
void print_declarations(std::string& text, const char* kind, const std::vector<Decl>& decls) {
  for (const Decl& decl : decls) {
    text += fmt::format("  {} {}: {}", kind, decl.name, to_string(decl.type.shape));
    if constexpr (std::is_same_v<Decl, InputDecl>) text += decl.integer ? " int" : "";
    text += "\n";
  }
}

void print_states(std::string& text, const Graph& graph) {
  for (const StateDecl& state : graph.states) {
    text += fmt::format("  state {}: {}", state.name, to_string(state.type.shape));
    if (state.reversed) text += " reversed";
    if (state.delay_of) text += " delay of " + name_of(graph.states, *state.delay_of);
    text += "\n";
  }
}

void print_end(std::string& text, const char* kind, const std::string& name, NodeId value) {
  if (value != kNoNode) text += fmt::format("  {} {} = %{}\n", kind, name, value);
}

}  // namespace

std::string to_string(const Graph& graph) {
  std::string text = "graph " + graph.name + "(";
  for (size_t i = 0; i < graph.dims.size(); ++i) {
    text += (i == 0 ? "" : ", ") + graph.dims[i].name;
    if (!graph.dims[i].default_value) continue;
    text += fmt::format(" {} {}", graph.dims[i].fixed ? "is" : "=", *graph.dims[i].default_value);
  }
  text += graph.descending ? ") descending {\n" : ") {\n";
  print_declarations(text, "input", graph.inputs);
  print_declarations(text, "param", graph.params);
  print_states(text, graph);
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    text += fmt::format("  %{} = {}\n", id, print_node(graph, graph.nodes[id]));
  }
  for (const StateDecl& state : graph.states) {
    print_end(text, "init", state.name, state.init);
    print_end(text, "next", state.name, state.next);
  }
  for (const OutputDecl& output : graph.outputs) {
    print_end(text, "output", output.name, output.value);
  }
  for (const ResultDecl& result : graph.results) {
    print_end(text, "result", result.name, result.value);
  }
  return text + "}\n";
}

}  // namespace rnnc
