#include "ir/graph/text.h"

namespace rnnc {
namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string delayed(const std::string& name, uint32_t delay, bool descending) {
  return delay == 0 ? name + "[t]" : fmt::format("{}[t{}{}]", name, descending ? '+' : '-', delay);
}

const char* style(Op op) {
  switch (op) {
    case Op::Input:
      return "shape=invhouse";
    case Op::Param:
      return "shape=box, style=filled, fillcolor=lightgrey";
    case Op::State:
      return "shape=ellipse, style=filled, fillcolor=lightblue";
    case Op::Constant:
    case Op::Vector:
      return "shape=plaintext";
    case Op::MatMul:
    case Op::Reverse:
    case Op::Earlier:
      return "shape=box, style=bold";
    default:
      return "shape=box, style=rounded";
  }
}

}  // namespace

std::string node_label(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::Input:
      return delayed(graph.inputs[node.decl].name, node.delay, graph.descending);
    case Op::Param:
      return graph.params[node.decl].name;
    case Op::State:
      return delayed(graph.states[node.decl].name, node.delay, graph.descending);
    case Op::Final:
      return "final " + graph.states[node.decl].name;
    case Op::Constant:
      return fmt::format("{}", node.value);
    case Op::Vector:
      return fmt::format("{}", fmt::join(node.values, ", "));
    case Op::Slice:
      return fmt::format("{}:{}", node.begin.to_string(), node.end.to_string());
    case Op::Index:
      return fmt::format("at {}", node.begin.to_string());
    case Op::Valid:
    case Op::Reset:
      return std::string(info(node.op).name) + (node.decl == 0 ? "" : " in reverse") +
             (node.delay > 0 ? fmt::format(" within {} steps", node.delay + 1) : "");
    default:
      return std::string(info(node.op).name);
  }
}

std::string to_dot(const Graph& graph) {
  std::string text = fmt::format("digraph {} {{\n  rankdir=TB;\n", quoted(graph.name));
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    const std::string name = node_label(graph, node) + " " + to_string(node.type.shape);
    text += fmt::format("  n{} [label={}, {}];\n", id, quoted(name), style(node.op));
    for (const NodeId operand : node.operands) text += fmt::format("  n{} -> n{};\n", operand, id);
  }
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (node.op != Op::State) continue;
    const StateDecl& state = graph.states[node.decl];
    text += fmt::format("  n{} -> n{} [label={}, style=dashed, constraint=false];\n", state.next,
                        id, quoted(fmt::format("{} @ {}", state.name, node.delay)));
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    text += fmt::format("  out{} [label={}, shape=house];\n  n{} -> out{};\n", i,
                        quoted(graph.outputs[i].name), graph.outputs[i].value, i);
  }
  for (size_t i = 0; i < graph.results.size(); ++i) {
    text += fmt::format("  result{} [label={}, shape=house];\n  n{} -> result{};\n", i,
                        quoted(graph.results[i].name), graph.results[i].value, i);
  }
  return text + "}\n";
}

}  // namespace rnnc
