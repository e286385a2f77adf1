#include "runtime/debug/named_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/graph/places.h"
#include "ir/graph/sweeps.h"
#include "runtime/base/describe.h"

namespace rnnc::debug {
namespace {

constexpr std::string_view kOfStep = "[t]";

std::string without_step(std::string name) {
  if (name.ends_with(kOfStep)) name.resize(name.size() - kOfStep.size());
  return name;
}

std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('.') + 1);  // all of it where there is no dot
}

}  // namespace

std::vector<NamedValue> named_values(const Graph& graph) {
  const ValueNames names(graph);
  const std::vector<Direction> directions = find_directions(graph);
  const std::vector<After> after = find_after(graph);
  const auto varies = [&](NodeId id) {
    return directions[id] != Direction::Invariant && after[id] == After::Nothing &&
           !is_integer(graph, id);
  };
  std::vector<NamedValue> values;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph[id];
    if (!varies(id)) continue;
    const std::string name = names.of(id);
    const uint32_t equation = node.location.equation;
    const bool is_equation = equation > 0 && equation <= graph.equations.size() &&
                             name == graph.equations[equation - 1].name;
    const bool is_input = node.op == Op::Input && node.delay == 0;
    if (!is_equation && !is_input) continue;
    values.push_back({id, without_step(name), place_of(graph, node.location)});
  }
  for (const OutputDecl& output : graph.outputs) {
    const auto is_known = [&](const NamedValue& value) { return value.node == output.value; };
    if (!varies(output.value) || std::ranges::any_of(values, is_known)) continue;
    values.push_back({output.value, output.name, place_of(graph, output.location)});
  }
  std::ranges::stable_sort(values, {}, &NamedValue::node);
  return values;
}

Result<std::vector<NamedValue>> find_values(const Graph& graph,
                                            const std::vector<std::string>& names) {
  const std::vector<NamedValue> all = named_values(graph);
  std::vector<std::string> candidates;
  for (const NamedValue& value : all) candidates.push_back(value.name);
  std::vector<std::string> meant = candidates;
  for (const std::string& name : candidates) meant.emplace_back(last_part(name));
  std::vector<NamedValue> found;
  std::vector<std::string> problems;
  for (const std::string& given : names) {
    const std::string name = without_step(given);
    const bool whole = std::ranges::find(candidates, name) != candidates.end();
    const size_t before = found.size();
    for (const NamedValue& value : all) {
      if (value.name == name || (!whole && last_part(value.name) == name)) found.push_back(value);
    }
    if (found.size() > before) continue;
    problems.push_back(fmt::format("no value {} that changes with the step{}", quote(given),
                                   did_you_mean(name, meant)));
  }
  if (problems.empty()) return found;
  return fail("{}:\n  {}", quote(graph.name), fmt::join(problems, "\n  "));
}

std::string element_name(const Type& type, size_t index) {
  if (type.is_scalar()) return "";
  std::vector<size_t> position(type.rank());
  for (size_t axis = type.rank(); axis-- > 0;) {
    const auto size = static_cast<size_t>(type.shape[axis].constant().value_or(1));
    position[axis] = index % size;
    index /= size;
  }
  if (position.size() == 1) return fmt::format("unit {}", position[0]);
  return fmt::format("unit [{}]", fmt::join(position, ", "));
}

}  // namespace rnnc::debug
