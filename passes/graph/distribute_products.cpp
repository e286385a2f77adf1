// 1. Find the recurrences.
// 2. Where a product of one has a joined vector, cut that into runs of pieces that are in the
//    recurrence and runs that are not. With more than one run, multiply each by its rows of the
//    weights and add up.
// 3. Where its vector is one of two, by one number per row, and one of these is not in the
//    recurrence, multiply each and choose then.
#include "passes/graph/distribute_products.h"

#include <algorithm>

#include "passes/graph/dependence.h"
#include "passes/graph/rebuild.h"

namespace rnnc {
namespace {

class DistributeProducts {
 public:
  explicit DistributeProducts(Graph& graph)
      : graph_(graph), old_(graph), dependence_(analyse_dependence(graph)) {}

  bool run() {
    bool changed = false;
    rebuild(graph_, all_nodes(graph_), [&](Node node, NodeId id, const auto& renumbered) {
      const size_t vector = vector_operand(id);
      if (vector == kNone) return append_node(graph_, std::move(node));
      if (is_choice(id, vector)) {
        changed = true;
        return choose(node, vector, old_[old_[id].operands[vector]], renumbered);
      }
      const std::vector<Run> runs = find_runs(id, vector);
      if (runs.size() < 2) return append_node(graph_, std::move(node));
      changed = true;
      return distribute(node, runs, vector, renumbered);
    });
    return changed;
  }

 private:
  /// Neighbouring pieces of a joined vector.
  struct Run {
    bool inside = false;  // the recurrence of the product
    std::vector<NodeId> pieces;
  };

  static constexpr size_t kNone = 2;

  /// Which operand of a recurrence's product with a matrix is the vector.
  size_t vector_operand(NodeId id) const {
    const Node& node = old_[id];
    if (node.op != Op::MatMul || dependence_.variation[id] != Variation::Recurrent) return kNone;
    for (size_t i = 0; i < 2; ++i) {
      const bool vector = old_[node.operands[i]].type.rank() == 1;
      if (vector && old_[node.operands[1 - i]].type.rank() > 1) return i;
    }
    return kNone;
  }

  bool are_together(NodeId a, NodeId b) const {
    return dependence_.stage[a] == dependence_.stage[b];
  }

  bool is_choice(NodeId id, size_t vector) const {
    const Node& where = old_[old_[id].operands[vector]];
    return where.op == Op::Where && old_[where.operands[0]].type.is_scalar() &&
           !are_together(where.operands[0], id) &&
           are_together(where.operands[1], id) != are_together(where.operands[2], id);
  }

  NodeId choose(const Node& node, size_t vector, const Node& where,
                const std::vector<NodeId>& renumbered) {
    std::vector<NodeId> operands = {renumbered[where.operands[0]]};
    for (size_t i = 1; i < 3; ++i) {
      std::vector<NodeId> factors = node.operands;
      factors[vector] = renumbered[where.operands[i]];
      if (old_[where.operands[i]].type.is_scalar()) {
        factors[vector] = graph_.broadcast(factors[vector], where.type.shape, where.location);
      }
      operands.push_back(graph_.apply(Op::MatMul, factors, node.location));
    }
    return graph_.apply(Op::Where, std::move(operands), node.location);
  }

  std::vector<Run> find_runs(NodeId id, size_t vector) const {
    std::vector<Run> runs;
    const Node& concat = old_[old_[id].operands[vector]];
    if (concat.op != Op::Concat || old_[old_[id].operands[1 - vector]].type.rank() != 2) return {};
    for (NodeId piece : concat.operands) {
      const bool inside = are_together(piece, id);
      if (runs.empty() || runs.back().inside != inside) runs.push_back({inside, {}});
      runs.back().pieces.push_back(piece);
    }
    return runs;
  }

  NodeId distribute(const Node& node, const std::vector<Run>& runs, size_t vector,
                    const std::vector<NodeId>& renumbered) {
    NodeId weight = node.operands[1 - vector];
    if (vector == 1) weight = graph_.apply(Op::Transpose, {weight}, node.location);
    NodeId sum = kNoNode;
    int64_t begin = 0;
    for (const Run& run : runs) {
      std::vector<NodeId> pieces;
      int64_t end = begin;
      for (NodeId piece : run.pieces) {
        pieces.push_back(renumbered[piece]);
        end += element_count(old_[piece].type.shape);
      }
      const NodeId left =
          pieces.size() == 1 ? pieces[0] : graph_.apply(Op::Concat, pieces, node.location);
      const NodeId rows = graph_.slice(weight, begin, end, node.location);
      const NodeId product = graph_.apply(Op::MatMul, {left, rows}, node.location);
      sum = sum == kNoNode ? product : graph_.apply(Op::Add, {sum, product}, node.location);
      begin = end;
    }
    return sum;
  }

  Graph& graph_;
  const Graph old_;
  const Dependence dependence_;
};

}  // namespace

bool run_distribute_products(Graph& graph) {
  const auto is_product = [](const Node& node) { return node.op == Op::MatMul; };
  if (std::ranges::none_of(graph.nodes, is_product)) return false;
  return DistributeProducts(graph).run();
}

}  // namespace rnnc
