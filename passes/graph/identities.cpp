// 1. Copy the nodes in order, so that simpler operands count, and in place of each scalar op that
//    has an identity take the value that it names, or the op that it names on the same operands.
#include "passes/graph/identities.h"

#include <bit>
#include <cmath>

#include "passes/graph/rebuild.h"

namespace rnnc {
namespace {

class Identities {
 public:
  explicit Identities(Graph& graph) : graph_(graph) {}

  bool run() {
    bool changed = false;
    rebuild(graph_, all_nodes(graph_), [&](Node node, NodeId, const auto&) {
      const std::optional<NodeId> simpler = is_scalar(node.op) ? simplify(node) : std::nullopt;
      if (!simpler) return append_node(graph_, std::move(node));
      changed = true;
      return *simpler;
    });
    return changed;
  }

 private:
  std::optional<NodeId> simplify(const Node& node) {
    const NodeId a = node.operands[0];
    const NodeId b = node.operands.size() > 1 ? node.operands[1] : a;
    const auto apply = [&](Op op, std::vector<NodeId> operands) {
      return graph_.apply(op, std::move(operands), node.location);
    };
    switch (node.op) {
      case Op::Neg:
        if (is(a, Op::Neg)) return inside(a);
        break;
      case Op::Abs:
        if (is(a, Op::Neg) || is(a, Op::Abs)) return apply(Op::Abs, {inside(a)});
        break;
      case Op::Relu:
        if (is(a, Op::Relu)) return a;
        break;
      case Op::Min:
      case Op::Max:
        if (a == b) return a;
        break;
      case Op::Add:
        if (is(b, -0.0)) return a;
        if (is(a, -0.0)) return b;
        if (is(b, Op::Neg)) return apply(Op::Sub, {a, inside(b)});
        if (is(a, Op::Neg)) return apply(Op::Sub, {b, inside(a)});
        break;
      case Op::Sub:
        if (is(b, 0.0)) return a;
        if (is(b, Op::Neg)) return apply(Op::Add, {a, inside(b)});
        break;
      case Op::Mul:
        if (is(b, 1)) return a;
        if (is(a, 1)) return b;
        if (is(b, -1)) return apply(Op::Neg, {a});
        if (is(a, -1)) return apply(Op::Neg, {b});
        if (is(a, Op::Neg) && is(b, Op::Neg)) return apply(Op::Mul, {inside(a), inside(b)});
        break;
      case Op::Div:
        if (is(b, 1)) return a;
        if (is(b, -1)) return apply(Op::Neg, {a});
        if (is_power_of_two(b)) {
          const NodeId factor = graph_.constant(1 / graph_[b].value, node.location);
          return apply(Op::Mul, {a, factor});
        }
        break;
      case Op::Pow:
        if (is(b, 1)) return a;
        if (is(b, 2)) return apply(Op::Mul, {a, a});
        break;
      case Op::Where:
        return simplify_where(node);
      default:
        break;
    }
    return std::nullopt;
  }

  std::optional<NodeId> simplify_where(const Node& node) {
    const Node& condition = graph_[node.operands[0]];
    const NodeId yes = node.operands[1];
    const NodeId no = node.operands[2];
    if (condition.op != Op::Constant && yes != no) return std::nullopt;
    const NodeId chosen = yes == no || condition.value != 0 ? yes : no;
    if (graph_[chosen].type == node.type) return chosen;
    return graph_.broadcast(chosen, node.type.shape, node.location);
  }

  bool is(NodeId id, Op op) const { return graph_[id].op == op; }
  /// The operand of what has one.
  NodeId inside(NodeId id) const { return graph_[id].operands[0]; }
  /// The very constant: -0 is not 0.
  bool is(NodeId id, double value) const {
    return is(id, Op::Constant) &&
           std::bit_cast<uint64_t>(graph_[id].value) == std::bit_cast<uint64_t>(value);
  }
  /// One whose inverse is exact in every compute type.
  bool is_power_of_two(NodeId id) const {
    int exponent = 0;
    return is(id, Op::Constant) && std::abs(std::frexp(graph_[id].value, &exponent)) == 0.5 &&
           std::abs(exponent) < 100;
  }

  Graph& graph_;
};

}  // namespace

bool run_identities(Graph& graph) {
  return Identities(graph).run();
}

}  // namespace rnnc
