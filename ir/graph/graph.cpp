#include "ir/graph/graph.h"

#include <algorithm>
#include <utility>

namespace rnnc {
namespace {

// 2^44 elements are 128 TiB in float64; beyond, byte offsets of several arrays could overflow.
constexpr int64_t kMostElements = int64_t{1} << 44;

NodeId append(Graph& graph, Node node) {
  RNNC_CHECK(graph.nodes.size() < kNoNode, "the graph is full");
  graph.nodes.push_back(std::move(node));
  return static_cast<NodeId>(graph.nodes.size() - 1);
}

/// [N, P, Q] @ [N * Q], or [N * P] @ [N, P, Q].
std::optional<Type> infer_block_product(const Shape& blocks, const Shape& vector, bool left) {
  if (vector.size() != 1 || vector[0] != blocks[0] * blocks[left ? 2 : 1]) return std::nullopt;
  return Type{{blocks[0] * blocks[left ? 1 : 2]}};
}

std::optional<Type> infer_matmul(const Shape& left, const Shape& right) {
  if (left.size() == 3) return infer_block_product(left, right, /*left=*/true);
  if (right.size() == 3) return infer_block_product(right, left, /*left=*/false);
  if (left.empty() || left.size() > 2 || right.empty() || right.size() > 2) return std::nullopt;
  if (left.back() != right.front()) return std::nullopt;
  Type type;
  if (left.size() == 2) type.shape.push_back(left.front());
  if (right.size() == 2) type.shape.push_back(right.back());
  return type;
}

std::optional<Type> infer_concat(const std::vector<Type>& operands) {
  Type type = operands[0];
  if (type.is_scalar()) return std::nullopt;
  for (size_t i = 1; i < operands.size(); ++i) {
    const Shape& shape = operands[i].shape;
    if (shape.size() != type.rank() ||
        !std::equal(shape.begin() + 1, shape.end(), type.shape.begin() + 1)) {
      return std::nullopt;
    }
    type.shape[0] = type.shape[0] + shape[0];
  }
  return type;
}

std::optional<Type> infer_stack(const std::vector<Type>& operands) {
  for (const Type& operand : operands) {
    if (operand != operands[0]) return std::nullopt;
  }
  Type type = operands[0];
  type.shape.insert(type.shape.begin(), Dim(static_cast<int64_t>(operands.size())));
  return type;
}

/// Of a table [V, E] or [V], by a number.
std::optional<Type> infer_rows(const Shape& table, const Shape& index) {
  if (table.empty() || table.size() > 2 || !index.empty()) return std::nullopt;
  return Type{Shape(table.begin() + 1, table.end())};
}

std::optional<Type> infer_elementwise(const std::vector<Type>& operands) {
  Type type;
  for (const Type& operand : operands) {
    if (operand.is_scalar()) continue;
    if (!type.is_scalar() && operand != type) return std::nullopt;
    type = operand;
  }
  return type;
}

/// "`I`, `H`"
std::string quoted_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += fmt::format("{}`{}`", text.empty() ? "" : ", ", name);
  return text;
}

/// Collects what is wrong with the graph's shapes and positions under `bindings`, each complaint
/// once.
class ShapeCheck {
 public:
  explicit ShapeCheck(const DimBindings& bindings) : bindings_(bindings) {}

  void check(std::string_view what, const Shape& shape) {
    int64_t count = 1;
    for (const Dim& dim : shape) {
      const Result<int64_t> size = dim.evaluate(bindings_);
      if (!size) return complain(what, shape, size.error().message);
      if (*size == 0) {
        return complain(what, shape, fmt::format("`{}` is 0, dims start at 1", dim.to_string()));
      }
      if (__builtin_mul_overflow(count, *size, &count) || count > kMostElements) {
        return complain(what, shape, "too many elements");
      }
    }
  }

  /// A slice or an index of `operand`: whether it is in range.
  bool check_range(const Node& node, const Shape& operand) {
    const bool slice = node.op == Op::Slice;
    const std::string what =
        slice ? fmt::format("slice {}:{} of", node.begin.to_string(), node.end.to_string())
              : fmt::format("index {} of", node.begin.to_string());
    const Result<int64_t> size = operand.front().evaluate(bindings_);
    const Result<int64_t> begin = node.begin.evaluate(bindings_);
    const Result<int64_t> end = slice ? node.end.evaluate(bindings_) : begin;
    std::string reason;
    for (const Result<int64_t>* value : {&size, &begin, &end}) {
      if (!*value && reason.empty()) reason = value->error().message;
    }
    if (reason.empty() && !slice && *begin >= *size) {
      reason = fmt::format("{} is out of range, the last is {}", *begin, *size - 1);
    } else if (reason.empty() && slice && *end > *size) {
      reason = fmt::format("{}:{} is out of range, the end is {}", *begin, *end, *size);
    } else if (reason.empty() && slice && *begin >= *end) {
      reason = fmt::format("{}:{} is empty", *begin, *end);
    }
    if (!reason.empty()) complain(what, operand, reason);
    return reason.empty();
  }

  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  void complain(std::string_view what, const Shape& shape, const std::string& reason) {
    // A value computed from a bad input or param repeats its reason: say it where it comes from.
    if (std::ranges::find(reasons_, reason) != reasons_.end()) return;
    reasons_.push_back(reason);
    complaints_.push_back(fmt::format("{} {}: {}", what, to_string(shape), reason));
  }

  const DimBindings& bindings_;
  std::vector<std::string> reasons_;
  std::vector<std::string> complaints_;
};

void check_shapes(const Graph& graph, const DimBindings& bindings,
                  std::vector<std::string>& errors) {
  ShapeCheck shapes(bindings);
  for (const InputDecl& input : graph.inputs) {
    shapes.check(fmt::format("input `{}`", input.name), input.type.shape);
  }
  for (const ParamDecl& param : graph.params) {
    shapes.check(fmt::format("param `{}`", param.name), param.type.shape);
  }
  for (const StateDecl& state : graph.states) {
    shapes.check(fmt::format("state `{}`", state.name), state.type.shape);
  }
  for (const Node& node : graph.nodes) {
    const bool part = node.op == Op::Slice || node.op == Op::Index;
    if (part && !shapes.check_range(node, graph[node.operands[0]].type.shape)) continue;
    shapes.check(fmt::format("result of `{}`", info(node.op).name), node.type.shape);
  }
  for (const std::string& complaint : shapes.complaints()) errors.push_back(complaint);
}

}  // namespace

NodeId Graph::input(uint32_t decl, uint32_t delay, SourceLocation location) {
  RNNC_CHECK(decl < inputs.size());
  return append(*this, {.op = Op::Input,
                        .type = inputs[decl].type,
                        .operands = {},
                        .decl = decl,
                        .delay = delay,
                        .location = location});
}

NodeId Graph::param(uint32_t decl, SourceLocation location) {
  RNNC_CHECK(decl < params.size());
  return append(*this, {.op = Op::Param,
                        .type = params[decl].type,
                        .operands = {},
                        .decl = decl,
                        .location = location});
}

NodeId Graph::state(uint32_t decl, uint32_t delay, SourceLocation location) {
  RNNC_CHECK(decl < states.size());
  RNNC_CHECK(delay >= 1, "state `{}` read at its own step", states[decl].name);
  return append(*this, {.op = Op::State,
                        .type = states[decl].type,
                        .operands = {},
                        .decl = decl,
                        .delay = delay,
                        .location = location});
}

NodeId Graph::constant(double value, SourceLocation location) {
  return append(
      *this,
      {.op = Op::Constant, .type = {}, .operands = {}, .value = value, .location = location});
}

NodeId Graph::apply(Op op, std::vector<NodeId> operands, SourceLocation location) {
  std::vector<Type> types;
  std::string shapes;
  for (const NodeId operand : operands) {
    RNNC_CHECK(operand < nodes.size());
    types.push_back(nodes[operand].type);
    shapes += fmt::format(" {}", to_string(nodes[operand].type.shape));
  }
  std::optional<Type> type = infer_type(op, types);
  RNNC_CHECK(type, "`{}` on{}", info(op).name, shapes);
  return append(
      *this,
      {.op = op, .type = std::move(*type), .operands = std::move(operands), .location = location});
}

NodeId Graph::vector(std::vector<double> values, SourceLocation location) {
  return append(*this, {.op = Op::Vector,
                        .type = {{static_cast<int64_t>(values.size())}},
                        .operands = {},
                        .values = std::move(values),
                        .location = location});
}

NodeId Graph::range(Dim size, SourceLocation location) {
  return append(
      *this, {.op = Op::Range, .type = {{std::move(size)}}, .operands = {}, .location = location});
}

NodeId Graph::eye(Dim size, SourceLocation location) {
  return append(*this,
                {.op = Op::Eye, .type = {{size, size}}, .operands = {}, .location = location});
}

NodeId Graph::valid(bool reversed, SourceLocation location) {
  return append(*this, {.op = Op::Valid,
                        .type = {},
                        .operands = {},
                        .decl = reversed ? 1u : 0u,
                        .location = location});
}

NodeId Graph::reset(bool reversed, uint32_t back, SourceLocation location) {
  return append(*this, {.op = Op::Reset,
                        .type = {},
                        .operands = {},
                        .decl = reversed ? 1u : 0u,
                        .delay = back,
                        .location = location});
}

NodeId Graph::final_state(uint32_t decl, SourceLocation location) {
  RNNC_CHECK(decl < states.size());
  return append(*this, {.op = Op::Final,
                        .type = states[decl].type,
                        .operands = {},
                        .decl = decl,
                        .location = location});
}

NodeId Graph::total(NodeId value, SourceLocation location) {
  RNNC_CHECK(value < nodes.size());
  return append(
      *this,
      {.op = Op::Total, .type = nodes[value].type, .operands = {value}, .location = location});
}

NodeId Graph::total(NodeId left, NodeId right, Shape shape, SourceLocation location) {
  RNNC_CHECK(left < nodes.size() && right < nodes.size());
  return append(*this, {.op = Op::Total,
                        .type = {std::move(shape)},
                        .operands = {left, right},
                        .location = location});
}

NodeId Graph::broadcast(NodeId scalar, Shape shape, SourceLocation location) {
  RNNC_CHECK(scalar < nodes.size() && nodes[scalar].type.is_scalar());
  return append(*this, {.op = Op::Broadcast,
                        .type = {std::move(shape)},
                        .operands = {scalar},
                        .location = location});
}

NodeId Graph::slice(NodeId operand, Dim begin, Dim end, SourceLocation location) {
  RNNC_CHECK(operand < nodes.size() && !nodes[operand].type.is_scalar());
  Type type = nodes[operand].type;
  type.shape[0] = end - begin;
  return append(*this, {.op = Op::Slice,
                        .type = std::move(type),
                        .operands = {operand},
                        .begin = std::move(begin),
                        .end = std::move(end),
                        .location = location});
}

NodeId Graph::index(NodeId operand, Dim position, SourceLocation location) {
  RNNC_CHECK(operand < nodes.size() && !nodes[operand].type.is_scalar());
  Type type = nodes[operand].type;
  type.shape.erase(type.shape.begin());
  return append(*this, {.op = Op::Index,
                        .type = std::move(type),
                        .operands = {operand},
                        .begin = std::move(position),
                        .location = location});
}

void Graph::bind(const DimBindings& bindings) {
  const std::map<std::string, Dim, std::less<>> values(bindings.begin(), bindings.end());
  const auto bind_type = [&values](Type& type) {
    for (Dim& dim : type.shape) dim = dim.substitute(values);
  };
  for (InputDecl& input : inputs) bind_type(input.type);
  for (ParamDecl& param : params) bind_type(param.type);
  for (StateDecl& state : states) bind_type(state.type);
  for (Node& node : nodes) {
    bind_type(node.type);
    node.begin = node.begin.substitute(values);
    node.end = node.end.substitute(values);
  }
  std::erase_if(dims, [&bindings](const DimDecl& dim) { return bindings.contains(dim.name); });
}

bool is_integer(const Graph& graph, NodeId id) {
  while (graph[id].op == Op::Reverse) id = graph[id].operands[0];
  return graph[id].op == Op::Input && graph.inputs[graph[id].decl].integer;
}

std::vector<NodeId> tables_of(const Graph& graph, uint32_t input) {
  std::vector<NodeId> tables;
  for (const Node& node : graph.nodes) {
    if (node.op != Op::Rows) continue;
    NodeId integer = node.operands[1];
    while (graph[integer].op == Op::Reverse) integer = graph[integer].operands[0];
    if (graph[integer].decl == input) tables.push_back(node.operands[0]);
  }
  return tables;
}

std::optional<Type> infer_type(Op op, const std::vector<Type>& operands) {
  const OpInfo& op_info = info(op);
  if (op == Op::Concat || op == Op::Stack) {
    if (operands.empty()) return std::nullopt;
    return op == Op::Concat ? infer_concat(operands) : infer_stack(operands);
  }
  if (op_info.arity == 0 || operands.size() != static_cast<size_t>(op_info.arity)) {
    return std::nullopt;
  }
  if (op == Op::MatMul) return infer_matmul(operands[0].shape, operands[1].shape);
  if (op_info.scalar) return infer_elementwise(operands);
  if (op == Op::Rows) return infer_rows(operands[0].shape, operands[1].shape);
  if (op == Op::Reverse || op == Op::Earlier || op == Op::Real) return operands[0];
  if (op == Op::Transpose) {
    const Shape& matrix = operands[0].shape;
    if (matrix.size() != 2) return std::nullopt;
    return Type{{matrix[1], matrix[0]}};
  }
  if (!op_info.reduction) return std::nullopt;
  const Shape& shape = operands[0].shape;  // a reduction's
  if (shape.empty()) return std::nullopt;
  return Type{Shape(shape.begin(), shape.end() - 1)};
}

Result<DimBindings> complete_bindings(const Graph& graph, const DimBindings& bindings) {
  std::vector<std::string> errors;
  std::vector<std::string> names;
  std::vector<std::string> missing;
  DimBindings complete = bindings;
  for (const DimDecl& dim : graph.dims) {
    names.push_back(dim.name);
    if (const auto given = bindings.find(dim.name); given != bindings.end()) {
      if (dim.fixed && given->second != dim.default_value) {
        errors.push_back(
            fmt::format("{} was made for `{}` = {} and cannot be bound to {}: lower it "
                        "for that",
                        graph.name, dim.name, *dim.default_value, given->second));
      }
      continue;
    }
    if (dim.default_value) {
      complete[dim.name] = *dim.default_value;
    } else {
      missing.push_back(dim.name);
    }
  }
  if (!missing.empty()) {
    errors.push_back(fmt::format("{}: no value for dim{} {}", graph.name,
                                 missing.size() > 1 ? "s" : "", quoted_list(missing)));
  }
  for (const auto& [name, value] : bindings) {
    if (std::ranges::find(names, name) != names.end()) continue;
    errors.push_back(
        fmt::format("{} has no dim `{}`; {}", graph.name, name,
                    names.empty() ? "it has none" : "its dims are " + quoted_list(names)));
  }
  if (errors.empty()) check_shapes(graph, complete, errors);
  if (errors.empty()) return complete;
  return fail("{}", fmt::join(errors, "\n"));
}

}  // namespace rnnc
