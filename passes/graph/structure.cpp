// Until nothing changes:
// 1. Reversals. A value meets a reversal if it is one, or moves or computes element by element what
//    does. Mark whatever some Reverse wants backwards and meets one; from the last node to the
//    first, pass the wish on to operands. Then copy the nodes, making those versions on the way: of
//    a Reverse its operand, of an invariant itself, of what meets a reversal the same op on the
//    backward versions of its operands, of the rest a Reverse.
// 2. Pieces. From the last node to the first, find which pieces of each value are read. A value is
//    cut if only disjoint pieces are read and each can be computed by itself. Then copy the nodes,
//    of those that are cut only the pieces, and simplify each by what its operands are.
// 3. Remove what nothing needs any more.
#include "passes/graph/structure.h"

#include <algorithm>
#include <map>

#include "ir/graph/sweeps.h"
#include "passes/graph/dead_code.h"
#include "passes/graph/rebuild.h"

namespace rnnc {
namespace {

int64_t size_of(const Dim& dim) {
  const std::optional<int64_t> size = dim.constant();
  RNNC_CHECK(size, "`{}` is not bound", dim.to_string());
  return *size;
}

/// Step 1.
class Reversals {
 public:
  explicit Reversals(Graph& graph)
      : graph_(graph),
        old_(graph.nodes),
        directions_(find_directions(graph)),
        meets_(old_.size(), false),
        wanted_(old_.size(), false),
        backwards_(old_.size(), kNoNode) {}

  bool run() {
    if (!find_wanted()) return false;
    rebuild(graph_, all_nodes(graph_), [&](Node node, NodeId id, const auto& renumbered) {
      return emit(std::move(node), id, renumbered);
    });
    return true;
  }

 private:
  bool is_invariant(NodeId id) const { return directions_[id] == Direction::Invariant; }

  /// Whether the op does the same at every step, and cheaply enough to do it both ways.
  static bool is_element_by_element(Op op) {
    switch (op) {
      case Op::Broadcast:
      case Op::Slice:
      case Op::Index:
      case Op::Concat:
      case Op::Stack:
      case Op::Transpose:
      case Op::Rows:
      case Op::Real:
        return true;
      default:
        return is_scalar(op);
    }
  }

  bool find_wanted() {
    for (NodeId id = 0; id < old_.size(); ++id) {
      const auto meets = [&](NodeId operand) { return meets_[operand]; };
      meets_[id] = old_[id].op == Op::Reverse || (is_element_by_element(old_[id].op) &&
                                                  std::ranges::any_of(old_[id].operands, meets));
    }
    bool any = false;
    for (size_t id = old_.size(); id-- > 0;) {
      const bool reverse = old_[id].op == Op::Reverse;
      for (NodeId operand : old_[id].operands) {
        if (reverse ? meets_[operand] || is_invariant(operand)
                    : wanted_[id] && meets_[id] && !is_invariant(operand)) {
          wanted_[operand] = true;
          any = true;
        }
      }
    }
    return any;
  }

  NodeId emit(Node node, NodeId id, const std::vector<NodeId>& renumbered) {
    const std::vector<NodeId>& operands = old_[id].operands;
    const bool reverse = node.op == Op::Reverse;
    NodeId copy = kNoNode;
    if (reverse && wanted_[operands[0]]) {
      copy = backwards_[operands[0]];
    } else {
      copy = append_node(graph_, node);
    }
    if (!wanted_[id]) return copy;
    if (is_invariant(id)) {
      backwards_[id] = copy;
    } else if (reverse) {
      backwards_[id] = node.operands[0];
    } else if (meets_[id]) {
      for (size_t i = 0; i < operands.size(); ++i) {
        const bool turns = !is_invariant(operands[i]);
        node.operands[i] = turns ? backwards_[operands[i]] : renumbered[operands[i]];
      }
      backwards_[id] = append_node(graph_, std::move(node));
    } else {
      backwards_[id] = graph_.apply(Op::Reverse, {copy}, node.location);
    }
    return copy;
  }

  Graph& graph_;
  const std::vector<Node> old_;
  const std::vector<Direction> directions_;
  std::vector<bool> meets_;        // per old node: a Reverse, or computed from one
  std::vector<bool> wanted_;       // per old node: its backward version is needed
  std::vector<NodeId> backwards_;  // per old node: that version
};

/// Elements [begin, end) of a value's first axis; an index takes one and drops the axis.
struct Piece {
  int64_t begin = 0;
  int64_t end = 0;
  bool index = false;
  friend auto operator<=>(const Piece&, const Piece&) = default;
};

Piece shifted(const Piece& piece, int64_t by) {
  return {piece.begin + by, piece.end + by, piece.index};
}

bool takes_piece(Op op) {
  return op == Op::Slice || op == Op::Index;
}

Piece piece_of(const Node& node) {
  const int64_t begin = size_of(node.begin);
  if (node.op == Op::Index) return {begin, begin + 1, true};
  return {begin, size_of(node.end), false};
}

/// Step 2.
class Pieces {
 public:
  explicit Pieces(Graph& graph)
      : graph_(graph), old_(graph.nodes), cut_(old_.size(), false), parts_(old_.size()) {}

  bool run() {
    find_cuts();
    rebuild(graph_, all_nodes(graph_), [&](Node node, NodeId id, const auto& renumbered) {
      if (cut_[id]) {
        cut(node, id);
        return kNoNode;  // nothing reads it whole
      }
      if (takes_piece(node.op)) {
        const NodeId of = old_[id].operands[0];
        const Piece piece = piece_of(node);
        return cut_[of] ? parts_[of].at(piece) : take(renumbered[of], piece, node.location);
      }
      return simplify(std::move(node));
    });
    return changed_;
  }

 private:
  void find_cuts() {
    std::vector<bool> whole(old_.size(), false);  // read other than in pieces
    for_each_root(graph_, [&](NodeId root) { whole[root] = true; });
    for (NodeId id = static_cast<NodeId>(old_.size()); id-- > 0;) {
      const Node& node = old_[id];
      cut_[id] = !whole[id] && can_cut(id);
      for (NodeId operand : node.operands) {
        if (takes_piece(node.op)) {
          parts_[operand].emplace(piece_of(node), kNoNode);
        } else if (cut_[id] && is_scalar(node.op) && !old_[operand].type.is_scalar()) {
          parts_[operand].insert(parts_[id].begin(), parts_[id].end());
        } else {
          whole[operand] = true;
        }
      }
    }
  }

  /// Whether the pieces that are read of a value are disjoint and computed one by one.
  bool can_cut(NodeId id) const {
    const Node& node = old_[id];
    const std::map<Piece, NodeId>& parts = parts_[id];
    if (node.type.is_scalar() || parts.empty()) return false;
    for (auto part = parts.begin(), after = std::next(part); after != parts.end();
         ++part, ++after) {
      if (after->first.begin < part->first.end) return false;
    }
    if (is_scalar(node.op)) return true;
    if (node.op != Op::MatMul) return false;
    const Node& weight = old_[node.operands[0]];
    if (weight.type.rank() != 2 || old_[node.operands[1]].type.rank() != 1) return false;
    return std::ranges::all_of(parts, [&](const auto& part) {
      const bool joined = weight.op == Op::Concat;
      return joined ? find_joined(old_, weight, part.first).has_value() : !part.first.index;
    });
  }

  /// Computes the pieces of a value that is cut.
  void cut(const Node& node, NodeId id) {
    changed_ = true;
    for (auto& [piece, part] : parts_[id]) {
      if (node.op == Op::MatMul) {
        part = product_part(node, piece);
        continue;
      }
      std::vector<NodeId> operands;
      for (size_t i = 0; i < node.operands.size(); ++i) {
        const NodeId of = old_[id].operands[i];
        operands.push_back(cut_[of] ? parts_[of].at(piece)
                           : old_[of].type.is_scalar()
                               ? node.operands[i]
                               : take(node.operands[i], piece, node.location));
      }
      part = graph_.apply(node.op, std::move(operands), node.location);
    }
  }

  /// A piece of a product of weights with a vector.
  NodeId product_part(const Node& node, Piece piece) {
    NodeId weight = node.operands[0];
    if (graph_[weight].op != Op::Concat && !piece.index) {
      weight = take(weight, piece, node.location);
      return graph_.apply(Op::MatMul, {weight, node.operands[1]}, node.location);
    }
    if (const auto joined = find_joined(graph_.nodes, graph_[weight], piece)) {
      weight = joined->first;
      piece = joined->second;
    }
    const NodeId product = graph_.apply(Op::MatMul, {weight, node.operands[1]}, node.location);
    return take(product, piece, node.location);
  }

  /// The operand of a Concat that the whole piece lies in, and which of its pieces that is.
  static std::optional<std::pair<NodeId, Piece>> find_joined(const std::vector<Node>& nodes,
                                                             const Node& concat,
                                                             const Piece& piece) {
    if (concat.op != Op::Concat) return std::nullopt;
    int64_t begin = 0;
    for (NodeId operand : concat.operands) {
      const int64_t end = begin + size_of(nodes[operand].type.shape[0]);
      if (begin <= piece.begin && piece.end <= end) {
        return std::pair(operand, shifted(piece, -begin));
      }
      begin = end;
    }
    return std::nullopt;
  }

  /// A piece of a value of the new graph, from as near to its source as can be.
  NodeId take(NodeId of, const Piece& piece, const SourceLocation& location) {
    const Node node = graph_[of];  // a copy, since the graph grows
    const bool unchanged = std::exchange(changed_, true);
    if (!piece.index && piece.begin == 0 && piece.end == size_of(node.type.shape[0])) return of;
    if (node.op == Op::Slice) {
      return take(node.operands[0], shifted(piece, size_of(node.begin)), location);
    }
    if (const auto joined = find_joined(graph_.nodes, node, piece)) {
      return take(joined->first, joined->second, location);
    }
    if (node.op == Op::Stack) {
      const auto first = node.operands.begin();
      if (piece.index) return first[piece.begin];
      return graph_.apply(Op::Stack, {first + piece.begin, first + piece.end}, location);
    }
    if (node.op == Op::Broadcast) {
      Shape shape = node.type.shape;
      shape[0] = piece.end - piece.begin;
      if (piece.index) shape.erase(shape.begin());
      return spread(node.operands[0], std::move(shape), location);
    }
    changed_ = unchanged;
    return piece.index ? graph_.index(of, piece.begin, location)
                       : graph_.slice(of, piece.begin, piece.end, location);
  }

  NodeId spread(NodeId scalar, Shape shape, const SourceLocation& location) {
    return shape.empty() ? scalar : graph_.broadcast(scalar, std::move(shape), location);
  }

  /// A node whose operands are simplified, by what they are.
  NodeId simplify(Node node) {
    std::optional<NodeId> simpler;
    switch (node.op) {
      case Op::Broadcast:
        if (node.type.is_scalar()) simpler = node.operands[0];
        break;
      case Op::Concat:
        simpler = simplify_concat(node);
        break;
      case Op::Stack:
        simpler = simplify_stack(node);
        break;
      case Op::Transpose:
        simpler = simplify_transpose(node);
        break;
      case Op::MatMul:
        simpler = simplify_product(node);
        break;
      case Op::Total:
        simpler = simplify_total(node);
        break;
      default:
        if (is_scalar(node.op)) simpler = simplify_elementwise(node);
    }
    if (!simpler) return append_node(graph_, std::move(node));
    changed_ = true;
    return *simpler;
  }

  /// Operands of its Concat operands are its own, and neighbouring slices of a value are one.
  std::optional<NodeId> simplify_concat(const Node& node) {
    std::vector<NodeId> operands;
    for (NodeId operand : node.operands) {
      const bool nested = graph_[operand].op == Op::Concat;
      for (NodeId part : nested ? graph_[operand].operands : std::vector{operand}) {
        if (!operands.empty() && are_neighbours(operands.back(), part)) {
          const Node first = graph_[operands.back()];
          const Piece both{size_of(first.begin), size_of(graph_[part].end), false};
          operands.back() = take(first.operands[0], both, node.location);
        } else {
          operands.push_back(part);
        }
      }
    }
    if (operands.size() == 1) return operands[0];
    if (operands == node.operands) return std::nullopt;
    return graph_.apply(Op::Concat, std::move(operands), node.location);
  }

  bool are_neighbours(NodeId left, NodeId right) const {
    const Node& a = graph_[left];
    const Node& b = graph_[right];
    return a.op == Op::Slice && b.op == Op::Slice && a.operands == b.operands && a.end == b.begin;
  }

  /// Of successive elements of one value, that slice of it.
  std::optional<NodeId> simplify_stack(const Node& node) {
    const Node first = graph_[node.operands[0]];
    if (first.op != Op::Index) return std::nullopt;
    const int64_t begin = size_of(first.begin);
    int64_t end = begin;
    for (NodeId operand : node.operands) {
      const Node& element = graph_[operand];
      if (element.op != Op::Index || element.operands != first.operands ||
          size_of(element.begin) != end) {
        return std::nullopt;
      }
      ++end;
    }
    return take(first.operands[0], {begin, end, false}, node.location);
  }

  std::optional<NodeId> simplify_transpose(const Node& node) {
    const Node& operand = graph_[node.operands[0]];
    if (operand.op == Op::Transpose) return operand.operands[0];
    if (operand.op == Op::Eye) return node.operands[0];
    if (operand.op == Op::Broadcast) {
      return graph_.broadcast(operand.operands[0], node.type.shape, node.location);
    }
    return std::nullopt;
  }

  /// With a vector, a transposed matrix is the matrix on the other side.
  std::optional<NodeId> simplify_product(const Node& node) {
    const NodeId left = node.operands[0];
    const NodeId right = node.operands[1];
    if (graph_[left].op == Op::Transpose && graph_[right].type.rank() == 1) {
      return graph_.apply(Op::MatMul, {right, graph_[left].operands[0]}, node.location);
    }
    if (graph_[right].op == Op::Transpose && graph_[left].type.rank() == 1) {
      return graph_.apply(Op::MatMul, {graph_[right].operands[0], left}, node.location);
    }
    return std::nullopt;
  }

  /// The adjoint of elements that nobody reads is zero, and so is what a param gets from them: no
  /// NaN of the other operand passes into that.
  std::optional<NodeId> simplify_total(const Node& node) {
    const auto is_zero_here = [this](NodeId id) { return is_zero(graph_, id); };
    if (std::ranges::none_of(node.operands, is_zero_here)) return std::nullopt;
    return spread(graph_.constant(0, node.location), node.type.shape, node.location);
  }

  /// Scalars spread by themselves; of nothing but spread scalars the result is spread.
  std::optional<NodeId> simplify_elementwise(const Node& node) {
    std::vector<NodeId> operands;
    Type type;
    for (NodeId operand : node.operands) {
      const Node& value = graph_[operand];
      operands.push_back(value.op == Op::Broadcast ? value.operands[0] : operand);
      if (!graph_[operands.back()].type.is_scalar()) type = value.type;
    }
    if (operands == node.operands) return std::nullopt;
    const NodeId result = graph_.apply(node.op, std::move(operands), node.location);
    return type == node.type ? result : spread(result, node.type.shape, node.location);
  }

  Graph& graph_;
  const std::vector<Node> old_;
  std::vector<bool> cut_;                       // per old node: only its pieces are computed
  std::vector<std::map<Piece, NodeId>> parts_;  // per old node: the pieces that are read
  bool changed_ = false;
};

bool has_reverse(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& n) { return n.op == Op::Reverse; });
}

}  // namespace

bool run_structure(Graph& graph) {
  bool changed = false;
  for (bool again = true; again;) {
    const bool reversals = has_reverse(graph) && Reversals(graph).run();
    const bool pieces = Pieces(graph).run();
    again = reversals || pieces;
    if (again) run_dead_code(graph);
    changed = changed || again;
  }
  return changed;
}

}  // namespace rnnc
