#include "ir/graph/places.h"

#include <fmt/format.h>

#include "ir/graph/text.h"

namespace rnnc {
namespace {

bool is_same(const SourceLocation& a, const SourceLocation& b) {
  return a.file == b.file && a.begin == b.begin && a.end == b.end;
}

const SourceFile* file_of(const Graph& graph, SourceLocation location) {
  if (location.end == 0 || graph.sources == nullptr) return nullptr;
  return location.file < graph.sources->size() ? &(*graph.sources)[location.file] : nullptr;
}

const EquationDecl* equation_of(const Graph& graph, SourceLocation location) {
  const uint32_t number = location.equation;
  return number == 0 || number > graph.equations.size() ? nullptr : &graph.equations[number - 1];
}

}  // namespace

std::string place_of(const Graph& graph, SourceLocation location) {
  const EquationDecl* equation = equation_of(graph, location);
  if (equation && graph.sources && location.file + 1 == graph.sources->size()) {
    location = equation->location;
  }
  const SourceFile* file = file_of(graph, location);
  if (!file) return "";
  const auto [line, column] = file->position(location.begin);
  return fmt::format("{}:{}:{}", file->name(), line, column);
}

std::string text_at(const Graph& graph, SourceLocation location, size_t most) {
  const SourceFile* file = file_of(graph, location);
  if (!file) return "";
  std::string text;
  for (const char c : file->slice(location)) {
    const bool blank = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (!blank) {
      text += c;
    } else if (!text.ends_with(' ')) {
      text += ' ';
    }
  }
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

ValueNames::ValueNames(const Graph& graph)
    : graph_(graph), values_(graph.equations.size(), kNoNode) {
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const SourceLocation& location = graph[id].location;
    const EquationDecl* equation = equation_of(graph, location);
    // Of several nodes that stand for the whole right side, the last has its value.
    if (equation && is_same(location, equation->location)) values_[location.equation - 1] = id;
  }
}

std::string ValueNames::of(NodeId id) const {
  const Node& node = graph_[id];
  std::string label = node_label(graph_, node);
  const bool is_leaf = node.op == Op::Input || node.op == Op::Param || node.op == Op::State ||
                       node.op == Op::Valid || node.op == Op::Reset;
  if (is_leaf) return label;
  const EquationDecl* equation = equation_of(graph_, node.location);
  if (!equation) return fmt::format("%{} {}", id, label);
  if (values_[node.location.equation - 1] == id) return equation->name;
  const std::string text = text_at(graph_, node.location);
  return fmt::format("{} in {}", text.empty() ? label : "`" + text + "`", equation->name);
}

}  // namespace rnnc
