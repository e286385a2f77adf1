// 1. Residuals of one op, width and place in the text are an array, in the order of their ids.
// 2. Two of them are compared, operand by operand, until rows of one value are met. If these come
//    one before the other, the order is the other way; if there are none, or products before them,
//    these are no turns over an array but layers, say.
#include "passes/gradient/residual_arrays.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

namespace rnnc {
namespace {

/// Fewer do not become a loop.
constexpr size_t kLeast = 8;
constexpr int kDeepest = 12;

/// How two values of one form differ.
struct Difference {
  std::optional<bool> descends = {};  // whether the second is made of an earlier row
  bool other = false;                 // by other than rows, or by what products made
};

/// Operand by operand, as far as they are not the same.
void compare(const Graph& graph, NodeId a, NodeId b, int depth, Difference& difference) {
  const Node& first = graph[a];
  const Node& second = graph[b];
  if (a == b || depth > kDeepest || difference.other) return;
  difference.other = first.op != second.op || first.op == Op::MatMul ||
                     first.operands.size() != second.operands.size();
  if (difference.other) return;
  const bool rows = first.op == Op::Index || first.op == Op::Slice;
  if (rows && first.operands == second.operands) {
    if (difference.descends) return;
    difference.descends = *second.begin.constant() < *first.begin.constant();
    return;
  }
  for (size_t i = 0; i < first.operands.size(); ++i) {
    compare(graph, first.operands[i], second.operands[i], depth + 1, difference);
  }
}

/// Products take values as they lie best for these.
std::vector<bool> find_multiplied(const Graph& graph) {
  std::vector<bool> multiplied(graph.nodes.size(), false);
  for (const Node& node : graph.nodes) {
    if (node.op != Op::MatMul) continue;
    for (const NodeId operand : node.operands) multiplied[operand] = true;
  }
  return multiplied;
}

}  // namespace

ResidualArrays find_residual_arrays(const Graph& graph, const std::vector<bool>& residuals,
                                    const std::vector<bool>& reversed) {
  using Key = std::tuple<uint32_t, uint32_t, uint32_t, Op, int64_t>;
  const std::vector<bool> multiplied = find_multiplied(graph);
  std::map<Key, std::vector<NodeId>> alike;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph[id];
    const SourceLocation& at = node.location;
    const bool in_text = at.begin != at.end && node.op != Op::State;
    const bool may_join = residuals[id] && !reversed[id] && !multiplied[id];
    if (!may_join || !in_text || node.type.rank() > 1) continue;
    const int64_t width = node.type.is_scalar() ? 0 : element_count(node.type.shape);
    alike[{at.file, at.begin, at.end, node.op, width}].push_back(id);
  }
  ResidualArrays arrays;
  for (auto& [key, values] : alike) {
    if (values.size() < kLeast) continue;
    Difference difference;
    compare(graph, values[1], values[2], 0, difference);
    if (difference.other || !difference.descends) continue;
    if (*difference.descends) std::ranges::reverse(values);
    for (size_t i = 0; i < values.size(); ++i) arrays.places[values[i]] = {arrays.values.size(), i};
    arrays.values.push_back(std::move(values));
  }
  return arrays;
}

}  // namespace rnnc
