// 1. In order of ids, so that folded operands count, replace in place each scalar op on constants
//    by the constant it makes. NaN is always the same NaN, whatever its sign came out as on this
//    machine.
#include "passes/constant_folding.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rnnc {

bool run_constant_folding(Graph& graph) {
  bool changed = false;
  for (Node& node : graph.nodes) {
    const auto is_constant = [&](NodeId id) { return graph[id].op == Op::Constant; };
    if (!is_scalar(node.op) || !std::ranges::all_of(node.operands, is_constant)) continue;
    double operands[3] = {};
    for (size_t i = 0; i < node.operands.size(); ++i) operands[i] = graph[node.operands[i]].value;
    const double value = evaluate(node.op, operands[0], operands[1], operands[2]);
    node.value = std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
    node.op = Op::Constant;
    node.operands.clear();
    changed = true;
  }
  return changed;
}

}  // namespace rnnc
