#include "passes/gradient/adjoints.h"

#include <algorithm>
#include <optional>

#include "ir/graph/formula.h"
#include "passes/gradient/adjoint_sum.h"

namespace rnnc {
namespace {

int64_t size_of(const Dim& dim) {
  return *dim.constant();
}

class Rules {
 public:
  explicit Rules(const AdjointContext& context)
      : context_(context),
        node_(context.forward[context.node]),
        graph_(context.backward),
        at_(node_.location) {}

  void run() {
    switch (node_.op) {
      case Op::Broadcast:
        return add(0, sum_to(graph_, context_.adjoint, {}, !context_.after, at_));
      case Op::Slice:
        return context_.add_piece(0, size_of(node_.begin), size_of(node_.end), context_.adjoint);
      case Op::Index:
        return context_.add_piece(0, size_of(node_.begin), size_of(node_.begin) + 1,
                                  apply(Op::Stack, {context_.adjoint}));
      case Op::Concat:
        return concat();
      case Op::Stack:
        for (size_t i = 0; i < node_.operands.size(); ++i) {
          add(i, graph_.index(context_.adjoint, static_cast<int64_t>(i), at_));
        }
        return;
      case Op::Transpose:
        return add(0, apply(Op::Transpose, {context_.adjoint}));
      case Op::Reverse:
        return add(0, context_.after ? context_.adjoint : apply(Op::Reverse, {context_.adjoint}));
      case Op::Rows:
        if (context_.wanted(0)) context_.add_rows(0, node_.operands[1]);
        return;
      case Op::MatMul:
        return product();
      case Op::Where:
        return where();
      default:
        return is_reduction(node_.op) ? reduction() : scalar_op();
    }
  }

 private:
  NodeId apply(Op op, std::vector<NodeId> operands) {
    return graph_.apply(op, std::move(operands), at_);
  }
  NodeId number(double value) { return graph_.constant(value, at_); }
  const Type& type_of(size_t operand) const {
    return context_.forward[node_.operands[operand]].type;
  }
  NodeId value_of(size_t operand) const { return context_.value(node_.operands[operand]); }

  /// `value` may be of the node's shape where the operand is a scalar that was spread over it.
  void add(size_t operand, NodeId value) {
    if (!context_.wanted(operand)) return;
    context_.add(operand, sum_to(graph_, value, type_of(operand), !context_.after, at_));
  }

  void concat() {
    int64_t begin = 0;
    for (size_t i = 0; i < node_.operands.size(); ++i) {
      const int64_t end = begin + size_of(type_of(i).shape[0]);
      if (context_.wanted(i)) add(i, graph_.slice(context_.adjoint, begin, end, at_));
      begin = end;
    }
  }

  void where() {
    const NodeId condition = value_of(0);
    if (context_.wanted(1)) {
      add(1, apply(Op::Where, {condition, context_.adjoint, number(0)}));
    }
    if (context_.wanted(2)) {
      add(2, apply(Op::Where, {condition, number(0), context_.adjoint}));
    }
  }

  /// The chain rule with the op's partial derivatives.
  void scalar_op() {
    for (size_t i = 0; i < node_.operands.size(); ++i) {
      if (!context_.wanted(i)) continue;
      const Formula& formula = derivative(node_.op, i);
      const Formula::Node& root = formula.nodes.back();
      if (root.kind != Formula::Kind::Number) {
        add(i, apply(Op::Mul, {context_.adjoint, build_derivative(formula)}));
      } else if (root.number == 1) {
        add(i, context_.adjoint);
      } else if (root.number != 0) {
        add(i, apply(Op::Mul, {context_.adjoint, number(root.number)}));
      }
    }
  }

  /// With copies of those values alone that the formula names.
  NodeId build_derivative(const Formula& formula) {
    constexpr uint32_t kResult = 3;
    std::vector<NodeId> operands(node_.operands.size(), kNoNode);
    NodeId result = kNoNode;
    for (const Formula::Node& part : formula.nodes) {
      if (part.kind != Formula::Kind::Variable) continue;
      if (part.variable == kResult) {
        result = context_.value(context_.node);
      } else {
        operands[part.variable] = value_of(part.variable);
      }
    }
    return build(graph_, formula, operands, result, at_);
  }

  // ---- Reductions over the last axis ----

  void reduction() {
    if (!context_.wanted(0)) return;
    const Shape& shape = type_of(0).shape;
    const auto count = static_cast<double>(size_of(shape.back()));
    switch (node_.op) {
      case Op::Sum:
        return add(0, spread(context_.adjoint, shape));
      case Op::Mean:
        return add(0, spread(apply(Op::Div, {context_.adjoint, number(count)}), shape));
      case Op::Var: {
        const NodeId value = value_of(0);
        const NodeId mean = apply(Op::Mean, {value});
        const NodeId apart = apply(Op::Sub, {value, spread(mean, shape)});
        const NodeId factor = apply(Op::Mul, {context_.adjoint, number(2 / count)});
        return add(0, apply(Op::Mul, {apart, spread(factor, shape)}));
      }
      default: {  // the least or the greatest: those that are equal share
        const NodeId result = spread(context_.value(context_.node), shape);
        const NodeId taken = apply(Op::Eq, {value_of(0), result});
        const NodeId share = apply(Op::Div, {context_.adjoint, apply(Op::Sum, {taken})});
        return add(0, apply(Op::Where, {taken, spread(share, shape), number(0)}));
      }
    }
  }

  /// A value of `shape` without its last axis, the same along that axis. Of a vector: the scalar,
  /// which stands for all of its elements.
  NodeId spread(NodeId value, const Shape& shape) {
    if (shape.size() == 1) return value;
    if (shape.size() == 2) {
      const NodeId ones = graph_.broadcast(number(1), {1, shape[1]}, at_);
      return apply(Op::MatMul, {column(value), ones});
    }
    std::vector<NodeId> parts;
    for (int64_t i = 0; i < size_of(shape[0]); ++i) {
      parts.push_back(spread(graph_.index(value, i, at_), Shape(shape.begin() + 1, shape.end())));
    }
    return apply(Op::Stack, parts);
  }

  // ---- Products ----

  void product() {
    const size_t left = type_of(0).rank();
    const size_t right = type_of(1).rank();
    const NodeId d = context_.adjoint;
    if (left == 1 && right == 1) {
      if (context_.wanted(0)) add(0, apply(Op::Mul, {value_of(1), d}));
      if (context_.wanted(1)) add(1, apply(Op::Mul, {value_of(0), d}));
    } else if (right == 1) {  // W @ x
      if (context_.wanted(0)) outer(0, d, 1);
      if (context_.wanted(1)) add(1, apply(Op::MatMul, {d, value_of(0)}));
    } else if (left == 1) {  // x @ W
      if (context_.wanted(0)) add(0, apply(Op::MatMul, {value_of(1), d}));
      if (context_.wanted(1)) outer(1, 0, d);
    } else {
      if (context_.wanted(0)) {
        add(0, apply(Op::MatMul, {d, apply(Op::Transpose, {value_of(1)})}));
      }
      if (context_.wanted(1)) {
        add(1, apply(Op::MatMul, {apply(Op::Transpose, {value_of(0)}), d}));
      }
    }
  }

  /// The matrix's adjoint: the outer product of the result's adjoint and the vector.
  void outer(size_t matrix, NodeId adjoint, size_t vector) {
    add_outer(matrix, adjoint, value_of(vector));
  }
  void outer(size_t matrix, size_t vector, NodeId adjoint) {
    add_outer(matrix, value_of(vector), adjoint);
  }

  void add_outer(size_t matrix, NodeId left, NodeId right) {
    if (context_.invariant(matrix) && !context_.after) {
      context_.add_outer(matrix, left, right);
    } else {
      add(matrix, outer_product(left, right, type_of(matrix).shape));
    }
  }

  /// A vector as a matrix of one column.
  NodeId column(NodeId vector) { return apply(Op::Transpose, {apply(Op::Stack, {vector})}); }

  NodeId outer_product(NodeId left, NodeId right, const Shape& shape) {
    if (shape.size() == 2) {
      return apply(Op::MatMul, {column(left), apply(Op::Stack, {right})});
    }
    const int64_t rows = size_of(shape[1]);
    const int64_t columns = size_of(shape[2]);
    std::vector<NodeId> blocks;
    for (int64_t i = 0; i < size_of(shape[0]); ++i) {
      const NodeId part = graph_.slice(left, i * rows, (i + 1) * rows, at_);
      const NodeId other = graph_.slice(right, i * columns, (i + 1) * columns, at_);
      blocks.push_back(outer_product(part, other, Shape(shape.begin() + 1, shape.end())));
    }
    return apply(Op::Stack, blocks);
  }

  const AdjointContext& context_;
  const Node& node_;
  Graph& graph_;
  const SourceLocation at_;
};

}  // namespace

void add_adjoints(const AdjointContext& context) {
  Rules(context).run();
}

}  // namespace rnnc
