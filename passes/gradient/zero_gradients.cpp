#include "passes/gradient/zero_gradients.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/graph/formula.h"
#include "ir/graph/places.h"

namespace rnnc {
namespace {

/// Without a pair of parentheses around all of it.
std::string bare(const std::string& text) {
  if (!text.starts_with('(') || !text.ends_with(')')) return text;
  int open = 0;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    open += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (open == 0) return text;
  }
  return text.substr(1, text.size() - 2);
}

std::string describe(const Graph& graph, NodeId id) {
  const Node& node = graph[id];
  const std::string text = bare(text_at(graph, node.location));
  const std::string place = place_of(graph, node.location);
  const std::string what = text.empty() ? ValueNames(graph).of(id) : text;
  const std::string at = place.empty() ? "" : place + ": ";
  if (info(node.op).nan_rule == NanRule::Compare) {
    return fmt::format(
        "{}`{}` counts as a number here, whose gradient is zero everywhere: nothing is learned "
        "through it\n  hint: for a gradient of your choice write `s + stop_gradient(({}) - s)`, "
        "with `s = sigmoid(…)`, say; `stop_gradient({})` says that zero is meant",
        at, what, what, what);
  }
  return fmt::format(
      "{0}`{1}` has the gradient zero everywhere: nothing is learned through it\n  hint: for a "
      "straight-through gradient write `v + stop_gradient({2}(v) - v)`; `stop_gradient({2}(v))` "
      "says that zero is meant",
      at, what, info(node.op).name);
}

}  // namespace

bool has_zero_gradient(Op op) {
  if (!is_scalar(op)) return false;
  for (int i = 0; i < info(op).arity; ++i) {
    const Formula::Node& root = derivative(op, static_cast<size_t>(i)).nodes.back();
    if (root.kind != Formula::Kind::Number || root.number != 0) return false;
  }
  return true;
}

std::vector<std::string> describe_zero_gradients(const Graph& graph,
                                                 const std::vector<NodeId>& nodes) {
  std::vector<std::string> notes;
  for (const NodeId id : nodes) {
    std::string note = describe(graph, id);
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
  }
  return notes;
}

}  // namespace rnnc
