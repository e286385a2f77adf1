// 1. Values are found by the names that buffers have from them: a state's and an output's name is
//    that of what they take, "products of x" are those with x on the right.
// 2. From what a launch writes the graph is walked up to what it reads, and to leaves.
#include "runtime/explain/launch_lines.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "ir/graph/places.h"
#include "passes/lower/layout.h"
#include "runtime/explain/text_names.h"

namespace rnnc::explain {
namespace {

constexpr std::string_view kParts = "parts of ";

/// Calls `use` with each part of "a|b".
template <typename Use>
void for_each_part(std::string_view name, const Use& use) {
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('|', begin), name.size());
    std::string_view part = name.substr(begin, end - begin);
    if (part.starts_with(kParts)) part.remove_prefix(kParts.size());
    use(part);
    begin = end + 1;
  }
}

/// The param at the root of what is sliced, reversed or transposed; "" if there is none.
std::string param_of(const Graph& graph, NodeId id) {
  while (graph[id].op != Op::Param) {
    if (graph[id].operands.size() != 1) return "";
    id = graph[id].operands[0];
  }
  return graph.params[graph[id].decl].name;
}

/// Leaves are no launch's work. Numbers are shared by lines.
bool is_leaf(Op op) {
  return op == Op::Input || op == Op::Param || op == Op::State || op == Op::Final ||
         op == Op::Constant;
}

/// Whether "W", "W[2]" or "W^T" is of this param.
bool is_of(std::string_view weight, std::string_view param) {
  if (!weight.starts_with(param)) return false;
  const std::string_view rest = weight.substr(param.size());
  return rest.empty() || rest[0] == '[' || rest[0] == '^';
}

}  // namespace

LaunchLines::LaunchLines(const Graph& graph, const Plan& plan) : graph_(graph) {
  for (const Buffer& buffer : plan.buffers) names_.push_back(buffer.name);
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (!is_leaf(graph[id].op)) values_.emplace(value_name(graph, id), id);
  }
  for (const StateDecl& state : graph.states) values_.emplace(state.name, state.next);
  for (const OutputDecl& output : graph.outputs) values_.emplace(output.name, output.value);
  for (const ResultDecl& result : graph.results) values_.emplace(result.name, result.value);
}

std::vector<NodeId> LaunchLines::values_in(BufferId id) const {
  std::vector<NodeId> values;
  for_each_part(names_[id], [&](std::string_view part) {
    const auto [begin, end] = values_.equal_range(part);
    for (auto at = begin; at != end; ++at) values.push_back(at->second);
  });
  return values;
}

void LaunchLines::add_products(std::string_view left, const std::vector<std::string>& weights,
                               std::vector<NodeId>& values) const {
  for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
    const Node& node = graph_[id];
    if (node.op != Op::MatMul) continue;
    const bool is_left = std::ranges::any_of(
        node.operands, [&](NodeId operand) { return value_name(graph_, operand) == left; });
    const std::string param = param_of(graph_, node.operands[0]);
    const bool is_asked =
        weights.empty() || param.empty() ||
        std::ranges::any_of(weights, [&](std::string_view weight) { return is_of(weight, param); });
    if (is_left && is_asked) values.push_back(id);
  }
}

std::vector<std::string> LaunchLines::lines_of(const std::vector<NodeId>& values) const {
  std::set<std::tuple<uint32_t, size_t, std::string>> lines;
  for (const NodeId id : values) {
    const std::string place = place_of(graph_, graph_[id].location);
    if (place.empty()) continue;
    const size_t column = place.rfind(':');
    const size_t line = place.rfind(':', column - 1) + 1;
    lines.emplace(graph_[id].location.file, std::stoul(place.substr(line, column - line)),
                  place.substr(0, column));
  }
  std::vector<std::string> result;
  for (const auto& [file, number, line] : lines) result.push_back(line);
  return result;
}

std::vector<std::string> LaunchLines::of(const std::vector<Touch>& touches,
                                         const std::vector<std::string>& weights) const {
  std::set<BufferId> written;
  for (const Touch& touch : touches) {
    if (touch.write) written.insert(touch.access.buffer);
  }
  std::set<NodeId> read;
  std::vector<NodeId> open;
  for (const Touch& touch : touches) {
    const BufferId buffer = touch.access.buffer;
    // What is added to, or carried on, is made here.
    if (!touch.write && written.contains(buffer)) continue;
    std::vector<NodeId> values = values_in(buffer);
    for_each_part(names_[buffer], [&](std::string_view part) {
      if (!part.starts_with(kProducts)) return;
      add_products(part.substr(kProducts.size()),
                   touch.write ? weights : std::vector<std::string>(), values);
    });
    if (touch.write) {
      open.insert(open.end(), values.begin(), values.end());
    } else {
      read.insert(values.begin(), values.end());
    }
  }
  std::set<NodeId> made;
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (is_leaf(graph_[id].op) || !made.insert(id).second || read.contains(id)) continue;
    for (const NodeId operand : graph_[id].operands) {
      if (!read.contains(operand)) open.push_back(operand);
    }
  }
  return lines_of({made.begin(), made.end()});
}

}  // namespace rnnc::explain
