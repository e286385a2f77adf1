// 1. In order of ids, so that folded operands count, evaluate each scalar op on constants in
//    float64, as the graph means it, and in float32, as most plans would compute it: all the way
//    from the constants that were there before.
// 2. If both are NaN, the same infinity, zero, or other numbers, the first replaces the op. NaN is
//    always the same NaN, whatever its sign came out as on this machine.
#include "passes/graph/constant_folding.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rnnc {
namespace {

/// Whether both behave alike in all that may follow: they differ by rounding at most.
bool are_alike(double value, float narrow) {
  const auto rounded = static_cast<float>(value);
  if (std::isfinite(value) != std::isfinite(rounded) || (value == 0) != (rounded == 0))
    return false;
  if (std::isnan(rounded) || std::isnan(narrow)) return std::isnan(rounded) && std::isnan(narrow);
  if (std::isinf(rounded) || std::isinf(narrow)) return rounded == narrow;
  return (rounded == 0) == (narrow == 0);
}

}  // namespace

bool run_constant_folding(Graph& graph) {
  std::vector<float> narrow(graph.nodes.size());  // constants in float32
  bool changed = false;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    Node& node = graph.nodes[id];
    if (node.op == Op::Constant) narrow[id] = static_cast<float>(node.value);
    const auto is_constant = [&](NodeId operand) {
      return graph[operand].op == Op::Constant && are_alike(graph[operand].value, narrow[operand]);
    };
    if (!is_scalar(node.op) || !std::ranges::all_of(node.operands, is_constant)) continue;
    double wide[3] = {};
    double rounded[3] = {};
    for (size_t i = 0; i < node.operands.size(); ++i) {
      wide[i] = graph[node.operands[i]].value;
      rounded[i] = narrow[node.operands[i]];
    }
    const double value = evaluate(node.op, wide[0], wide[1], wide[2]);
    narrow[id] = static_cast<float>(evaluate(node.op, rounded[0], rounded[1], rounded[2]));
    if (!are_alike(value, narrow[id])) continue;
    node.value = std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
    node.op = Op::Constant;
    node.operands.clear();
    changed = true;
  }
  return changed;
}

}  // namespace rnnc
