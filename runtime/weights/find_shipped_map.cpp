#include <algorithm>

#include "runtime/base/describe.h"
#include "runtime/weights/shipped_maps.h"

namespace rnnc {
namespace {

bool runs_in_reverse(const Graph& graph) {
  return std::ranges::any_of(graph.states, &StateDecl::reversed) ||
         std::ranges::any_of(graph.nodes, [](const Node& node) { return node.op == Op::Reverse; });
}

}  // namespace

Result<WeightMap> shipped_map(std::string_view name) {
  constexpr std::string_view kEnding = ".map";
  std::vector<std::string> names;
  for (const auto& [file, text] : shipped_maps()) {
    names.emplace_back(file.substr(0, file.size() - kEnding.size()));
    if (names.back() == name) return WeightMap::parse(text, file);
  }
  return fail("rnnc has no weight map {}{}", quote(name), did_you_mean(name, names));
}

std::set<std::string, std::less<>> tensors_of(const WeightMap& map, const Graph& graph) {
  std::vector<std::string> params;
  for (const ParamDecl& param : graph.params) params.push_back(param.name);
  std::set<std::string, std::less<>> tensors;
  for (const WeightSource& source :
       map.resolve(graph.name, params).value_or(std::vector<WeightSource>{})) {
    for (const WeightTerm& term : source.sum) tensors.insert(term.tensor);
  }
  return tensors;
}

std::optional<WeightMap> find_shipped_map(const Graph& graph) {
  for (const auto& [name, text] : shipped_maps()) {
    if (!name.starts_with("torch/")) continue;
    Result<WeightMap> map = WeightMap::parse(text, name);
    RNNC_CHECK(map, "{}", map.error().message);
    const auto tensors = tensors_of(*map, graph);
    // A bidirectional network has the params of a stack of twice as many layers.
    const bool both_directions = std::ranges::any_of(
        tensors, [](std::string_view tensor) { return tensor.ends_with("_reverse"); });
    if (!tensors.empty() && both_directions == runs_in_reverse(graph)) return std::move(*map);
  }
  return std::nullopt;
}

}  // namespace rnnc
