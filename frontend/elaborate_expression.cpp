// Expressions: names, steps in time, operators.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/elaborator.h"

namespace rnnc {

using ast::BinaryOp;
using ast::Expr;

namespace {

Op op_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add:
      return Op::Add;
    case BinaryOp::Sub:
      return Op::Sub;
    case BinaryOp::Mul:
      return Op::Mul;
    case BinaryOp::Div:
      return Op::Div;
    case BinaryOp::MatMul:
      return Op::MatMul;
    case BinaryOp::Lt:
      return Op::Lt;
    case BinaryOp::Le:
      return Op::Le;
    case BinaryOp::Gt:
      return Op::Gt;
    case BinaryOp::Ge:
      return Op::Ge;
    case BinaryOp::Eq:
      return Op::Eq;
    case BinaryOp::Ne:
      return Op::Ne;
  }
  return Op::Add;
}

bool contains(SourceLocation outer, SourceLocation inner) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

}  // namespace

Value Elaborator::expression(const Expr& expr) {
  Value result;
  if (!context_.enter(expr.location)) {
    failed_ = true;
  } else {
    switch (expr.kind) {
      case Expr::Kind::Number:
        result = Value::of_number(expr.number);
        break;
      case Expr::Kind::Name:
        result = name(expr);
        break;
      case Expr::Kind::Negate:
        result = apply(Op::Neg, arguments(expr), expr);
        break;
      case Expr::Kind::Binary:
        result = apply(op_of(expr.op), arguments(expr), expr);
        break;
      case Expr::Kind::Index:
      case Expr::Kind::Slice:
        result = indexed(expr);
        break;
      case Expr::Kind::Vector:
        result = vector(expr);
        break;
      case Expr::Kind::Call:
        result = call(expr);
        break;
    }
  }
  context_.leave();
  return result;
}

Value Elaborator::name(const Expr& expr) {
  if (is_time_step(expr)) {
    return error(expr.location, "`t` names the step and stands only in brackets: `h[t-1]`",
                 "a cell that needs the time itself takes it as an input");
  }
  if (Binding* binding = frame_->find(expr.text)) return bound_name(expr, *binding);
  if (const ast::Constant* constant = context_.constant(expr.text)) {
    if (!check_callee(*constant, expr)) return {};
    return Value::of_number(context_.constant_values()[constant]);
  }
  return unknown_name(expr);
}

Value Elaborator::bound_name(const Expr& expr, Binding& binding) {
  using Kind = Binding::Kind;
  binding.used = true;
  const bool varies =
      binding.kind == Kind::Input || binding.kind == Kind::State || binding.kind == Kind::Local;
  if (frame_->in_initial_value && varies) return not_initial(expr, binding.kind);
  if (binding.length > 0) return whole_array(expr, binding);
  const bool steps = binding.kind == Kind::State || frame_->kind == Frame::Kind::Cell;
  switch (binding.kind) {
    case Kind::Dim:
    case Kind::LoopIndex: {
      if (binding.argument) return argument(binding);
      const bool assumed = assumed_;
      const auto number = integer(binding.dim, expr.location, "its use as a number");
      assumed_ = assumed;  // a number in arithmetic decides no position
      return number ? Value::of_number(static_cast<double>(*number)) : Value();
    }
    case Kind::Input:
    case Kind::State:
      if (steps) {
        error(expr.location,
              fmt::format("`{}` is {}: which step is meant?", expr.text, describe(binding.kind)),
              binding.kind == Kind::Input
                  ? fmt::format("`{}[t]` is its value at this step", expr.text)
                  : fmt::format("`{0}[t-1]` is its last value, `{0}[t]` its new one", expr.text));
      }
      return binding.value;
    case Kind::Param:
    case Kind::Local:
      return binding.value;
    case Kind::Poison:
      break;
  }
  return {};
}

Value Elaborator::not_initial(const Expr& expr, Binding::Kind kind) {
  return error(expr.location,
               fmt::format("`{}` is {}, but an initial value is made of params and numbers",
                           expr.text, describe(kind)));
}

Value Elaborator::unknown_name(const Expr& expr) {
  failed_ = true;
  const auto is_given = [&](const Frame::Given& given) { return given.name == expr.text; };
  if (std::ranges::any_of(frame_->given, is_given)) {
    if (frame_->in_initial_value) return not_initial(expr, Binding::Kind::Local);
    read_too_early(expr, expr.text);
  } else if (const Builtin* builtin = find_builtin(expr.text)) {
    error(expr.location, fmt::format("`{}` is a function and must be called", expr.text),
          fmt::format("write `{}`", builtin->usage));
  } else if (context_.function(expr.text) || context_.definition(expr.text)) {
    error(expr.location,
          fmt::format("`{}` is a {} and must be called", expr.text,
                      context_.function(expr.text) ? "fn" : context_.definition(expr.text)->kind()),
          fmt::format("write `{}(…)`", expr.text));
  } else {
    std::vector<std::string> names = context_.names_of_constants();
    for (const auto& [known, binding] : frame_->names) {
      if (binding.kind != Binding::Kind::Poison) names.push_back(known);
    }
    const std::string hint =
        frame_->kind == Frame::Kind::Function ? "a fn sees its arguments and consts alone"
        : frame_->definition
            ? fmt::format("params and states are declared: `param {}: […]`", expr.text)
            : "";
    error(expr.location, fmt::format("unknown name `{}`", expr.text),
          did_you_mean(expr.text, names, hint));
  }
  frame_->names[expr.text] = {};  // once is enough
  return {};
}

// `text` is "c" or "c[t]".
Value Elaborator::read_too_early(const Expr& expr, const std::string& text) {
  failed_ = true;
  const std::string name = text.substr(0, text.find('['));
  const Frame::Given* nearest = nullptr;
  for (const Frame::Given& given : frame_->given) {
    if (given.name != name) continue;
    const bool after = given.statement.end > expr.location.begin;
    if (!nearest || (after && nearest->statement.end <= expr.location.begin)) nearest = &given;
  }
  if (!nearest) return {};  // a state that no line gives: reported at its declaration
  const std::vector<Diagnostic::Note> note = {{nearest->target, "given here"}};
  const std::string line = context_.line_of(nearest->target);
  if (contains(nearest->statement, expr.location)) {
    return error(expr.location, fmt::format("`{}` is read in the line that first gives it", text),
                 text == name ? "" : fmt::format("the last step's value is `{}[t-1]`", name));
  }
  if (nearest->statement.end <= expr.location.begin) {
    return error(expr.location, fmt::format("`{}` has no value here: {} did not run", text, line),
                 "", note);
  }
  return error(expr.location, fmt::format("`{}` is read before {} gives it", text, line),
               text == name ? "" : fmt::format("the last step's value is `{}[t-1]`", name), note);
}

Value Elaborator::apply(Op op, const std::vector<Value>& values, const Expr& whole) {
  if (std::ranges::any_of(values, &Value::is_poison)) return {};
  const bool known = std::ranges::all_of(
      values, [](const Value& value) { return value.kind == Value::Kind::Number; });
  if (known && is_scalar(op)) {
    const auto number = [&](size_t i) { return i < values.size() ? values[i].number : 0; };
    return Value::of_number(evaluate(op, number(0), number(1), number(2)));
  }
  std::vector<Part> parts;
  for (size_t i = 0; i < values.size(); ++i)
    parts.push_back({values[i], whole.children[i]->location});
  if (op == Op::Concat) return joined(std::move(parts), whole);
  const auto is_filled = [this](const Part& part) { return !is_empty(part.value, part.location); };
  return std::ranges::all_of(parts, is_filled) ? applied(op, parts, whole) : Value();
}

/// One after the other: an empty vector adds nothing, a scalar one element.
Value Elaborator::joined(std::vector<Part> parts, const Expr& whole) {
  std::erase_if(parts, [](const Part& part) { return part.value.kind == Value::Kind::Empty; });
  if (parts.empty()) return Value::of_nothing();
  for (Part& part : parts) {
    if (!type_of(part.value).is_scalar()) continue;
    const NodeId scalar = node_of(part.value, part.location);
    part.value = Value::of_node(graph_.broadcast(scalar, {1}, part.location));
  }
  return applied(Op::Concat, parts, whole);
}

/// `[1, 2, 4, 8]`.
Value Elaborator::vector(const Expr& expr) {
  const std::vector<Value> elements = arguments(expr);
  if (std::ranges::any_of(elements, &Value::is_poison)) return {};
  std::vector<Part> parts;
  std::vector<double> numbers;
  for (size_t i = 0; i < elements.size(); ++i) {
    const SourceLocation part = expr.children[i]->location;
    if (is_empty(elements[i], part)) return {};
    if (const Type type = type_of(elements[i]); !type.is_scalar()) {
      return error(part,
                   fmt::format("the elements of a vector are scalars, but {} is {}",
                               context_.quote(part), describe(type)),
                   "vectors are put one after the other by `concat(u, v)`");
    }
    parts.push_back({elements[i], part});
    if (elements[i].kind == Value::Kind::Number) numbers.push_back(elements[i].number);
  }
  if (numbers.size() < parts.size()) return joined(std::move(parts), expr);
  return Value::of_node(graph_.vector(std::move(numbers), expr.location));
}

Value Elaborator::applied(Op op, const std::vector<Part>& parts, const Expr& whole) {
  const auto types = [&] {
    std::vector<Type> result;
    for (const Part& part : parts) result.push_back(type_of(part.value));
    return result;
  };
  // A param of rank 3 multiplies a vector if and only if it was declared with blocks.
  const auto is_blocks = [](const Part& part) { return part.value.blocks; };
  const bool blocks = std::ranges::any_of(parts, is_blocks);
  const auto is_cubic = [](const Type& type) { return type.rank() > 2; };
  const auto is_vector = [](const Type& type) { return type.rank() == 1; };
  const Fit how = infer_type(op, types()) ? Fit::Good : fit(equations(op, types()));
  if (how == Fit::Unknown) return {};
  const std::optional<Type> type = infer_type(op, types());
  const bool cubic = std::ranges::any_of(types(), is_cubic);
  const bool dot = op == Op::MatMul && std::ranges::all_of(types(), is_vector);
  if (!type || dot || (op == Op::MatMul ? cubic != blocks : blocks)) {
    std::vector<Operand> operands;
    for (const Part& part : parts) {
      operands.push_back({context_.quote(part.location), type_of(part.value), part.value.blocks});
    }
    const Misfit wrong = misfit(op, quote(whole), operands);
    return error(whole.location, wrong.message + values_in(types()), wrong.hint);
  }
  std::vector<NodeId> nodes;
  for (const Part& part : parts) nodes.push_back(node_of(part.value, whole.location));
  return vary_as_vectors(nodes, parts, *type, whole)
             ? Value::of_node(graph_.apply(op, std::move(nodes), whole.location))
             : Value();
}

/// False, after an error, where a matrix that varies over time goes in or comes out.
bool Elaborator::vary_as_vectors(const std::vector<NodeId>& operands,
                                 const std::vector<Part>& parts, const Type& result,
                                 const Expr& whole) {
  bool varying = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!varies(operands[i])) continue;
    varying = true;
    const Type& type = graph_[operands[i]].type;
    if (type.rank() < 2) continue;
    const std::string text = context_.quote(parts[i].location);
    error(parts[i].location,
          fmt::format("{} is {} at every step: over time only vectors and scalars take part in "
                      "arithmetic",
                      text, describe(type)),
          fmt::format("its rows are vectors: `{}[0]`", text.substr(1, text.size() - 2)));
    return false;
  }
  if (!varying || result.rank() < 2) return true;
  error(whole.location, fmt::format("{} makes a new {} at every step: over time only vectors and "
                                    "scalars take part in arithmetic",
                                    quote(whole), describe(result)));
  return false;
}

/// True, after an error, of an empty vector where one with elements is needed.
bool Elaborator::is_empty(Value value, SourceLocation location) {
  if (value.kind != Value::Kind::Empty) return false;
  error(location,
        fmt::format("{} is empty, and only `concat` takes that", context_.quote(location)));
  return true;
}

/// False, after an error, if the value is a block-diagonal param, or empty.
bool Elaborator::is_dense(Value value, SourceLocation location) {
  if (is_empty(value, location)) return false;
  if (!value.blocks) return true;
  const Misfit wrong = blocks_misfit(context_.quote(location));
  error(location, wrong.message, wrong.hint);
  return false;
}

/// What an argument of a fn that could be a dim is as a value: that is asked where it is used,
/// since a dim may have no number yet.
Value Elaborator::argument(const Binding& binding) {
  Frame* const callee = std::exchange(frame_, binding.caller);
  const Context::View view(context_, frame_->file);
  const Value value = expression(*binding.argument);
  frame_ = callee;
  return value;
}

}  // namespace rnnc
