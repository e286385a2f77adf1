#include "runtime/explain/text_names.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "ir/graph/places.h"
#include "passes/lower/layout.h"

namespace rnnc::explain {
namespace {

constexpr std::string_view kOfStep = "[t]";

constexpr std::string_view kSaved = "saved ";
constexpr std::string_view kOutput = "@output";

bool is_declared(Op op) {
  return op == Op::Input || op == Op::Param || op == Op::State || op == Op::Final;
}

std::string without_step(std::string name) {
  if (name.ends_with(kOfStep)) name.resize(name.size() - kOfStep.size());
  return name;
}

/// "h[t-1]" of a half that reads the other's output "h@output", or what that has saved of h[t].
std::string earlier_name(const Graph& graph, NodeId of, const SavedNames& saved) {
  std::string name = value_name(graph, of);
  if (const auto found = saved.find(name); found != saved.end()) {
    name = without_step(found->second);
  } else if (name.ends_with(kOutput)) {
    name.resize(name.size() - kOutput.size());
  }
  return name + "[t-1]";
}

/// By the name that a buffer of the value has.
std::map<std::string, std::string, std::less<>> names_in_text(const Graph& graph,
                                                              const SavedNames& saved) {
  std::map<std::string, std::string, std::less<>> names;
  const ValueNames values(graph);
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const uint32_t equation = graph[id].location.equation;
    if (graph[id].op == Op::Earlier) {
      names.emplace(value_name(graph, id), earlier_name(graph, graph[id].operands[0], saved));
      continue;
    }
    if (is_declared(graph[id].op) || equation == 0 || equation > graph.equations.size()) continue;
    std::string name = graph.equations[equation - 1].name;
    const bool whole = values.of(id) == name;
    name = without_step(std::move(name));
    if (!whole) name += fmt::format(".{}", id);
    names.emplace(value_name(graph, id), std::move(name));
  }
  for (const ResultDecl& result : graph.results) {
    names.emplace(value_name(graph, result.value), result.name + "@gradient");
  }
  return names;
}

}  // namespace

void name_as_text(const Graph& graph, const SavedNames& saved, Plan& plan) {
  auto names = names_in_text(graph, saved);
  for (const auto& [array, name] : saved) {
    names.emplace(array, fmt::format("{}{}", kSaved, without_step(name)));
  }
  for (Buffer& buffer : plan.buffers) {
    std::string renamed;
    for (size_t begin = 0; begin <= buffer.name.size();) {
      const size_t end = std::min(buffer.name.find('|', begin), buffer.name.size());
      std::string_view part = std::string_view(buffer.name).substr(begin, end - begin);
      if (begin > 0) renamed += '|';
      if (part.starts_with(kProducts)) {
        renamed += kProducts;
        part.remove_prefix(kProducts.size());
      }
      const auto found = names.find(part);
      renamed += found == names.end() ? part : found->second;
      begin = end + 1;
    }
    buffer.name = std::move(renamed);
  }
}

void name_as_text(const SavedNames& saved, GraphPicture& picture) {
  for (GraphPicture::Node& node : picture.nodes) {
    std::string_view array = node.label;
    if (array.ends_with(kOfStep)) array.remove_suffix(kOfStep.size());
    const auto found = saved.find(array);
    if (found != saved.end()) node.label = fmt::format("{}{}", kSaved, found->second);
  }
}

}  // namespace rnnc::explain
