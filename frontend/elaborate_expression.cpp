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

bool is_t(const Expr& expr) {
  return expr.kind == Expr::Kind::Name && expr.text == "t";
}

bool mentions_t(const Expr& expr) {
  return is_t(expr) || std::ranges::any_of(expr.children, [](const ast::ExprPtr& child) {
           return child && mentions_t(*child);
         });
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
      case Expr::Kind::Call:
        result = call(expr);
        break;
    }
  }
  context_.leave();
  return result;
}

Value Elaborator::name(const Expr& expr) {
  if (is_t(expr)) {
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
  const bool steps = binding.kind == Kind::State || frame_->kind == Frame::Kind::Cell;
  switch (binding.kind) {
    case Kind::Dim:
    case Kind::LoopIndex: {
      const auto number = integer(binding.dim, expr.location, "its use as a number");
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
  } else if (!context_.has_imports()) {
    std::vector<std::string> names = context_.names_of_constants();
    for (const auto& [known, binding] : frame_->names) {
      if (binding.kind != Binding::Kind::Poison) names.push_back(known);
    }
    const bool in_function = frame_->kind == Frame::Kind::Function;
    error(expr.location, fmt::format("unknown name `{}`", expr.text),
          did_you_mean(expr.text, names,
                       in_function ? "a fn sees its arguments and consts alone" : ""));
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

Value Elaborator::indexed(const Expr& expr) {
  const bool slice = expr.kind == Expr::Kind::Slice;
  const Expr& base = *expr.children[0];
  const bool named = base.kind == Expr::Kind::Name;
  const Expr* root = &base;
  while (root->kind == Expr::Kind::Index) root = root->children[0].get();
  const Binding* binding = frame_->find(root->text);
  if (binding && binding->kind == Binding::Kind::Poison) return {};
  if (!slice && mentions_t(*expr.children[1])) {
    if (named) return at_time(expr);
    return error(expr.location, "only a state or an input is read at a step");
  }
  const size_t errors = context_.errors();
  const Value value = expression(base);
  if (value.is_poison() || context_.errors() != errors) return {};
  return error(expr.location,
               slice ? "slices are not compiled yet" : "indexing is not compiled yet",
               "give each part a param or state of its own");
}

Value Elaborator::at_time(const Expr& expr) {
  using Kind = Binding::Kind;
  const Expr& base = *expr.children[0];
  const std::string& text = base.text;
  if (frame_->kind == Frame::Kind::Function || frame_->kind == Frame::Kind::Constant) {
    const bool function = frame_->kind == Frame::Kind::Function;
    return error(expr.location, function ? "a fn has no time" : "a const has no time",
                 function ? "pass the value at a step as an argument" : "");
  }
  if (frame_->kind == Frame::Kind::Network) {
    error(expr.location, "a network speaks of whole sequences and has no `[t]`",
          fmt::format("write `{}`", text));
    return frame_->find(text) ? name(base) : Value();
  }
  Binding* binding = frame_->find(text);
  if (!binding) {
    if (context_.constant(text)) return without_time(expr, text, "a const", {});
    return unknown_name(base);
  }
  if (binding->kind == Kind::Input || binding->kind == Kind::State) {
    const auto steps = delay(*expr.children[1]);
    return steps ? input_or_state_at(expr, *binding, *steps) : Value();
  }
  binding->used = true;
  return without_time(expr, text, describe(binding->kind), binding->value);
}

Value Elaborator::without_time(const Expr& expr, const std::string& text, std::string_view what,
                               Value value) {
  const bool past = !is_t(*expr.children[1]) && what == describe(Binding::Kind::Local);
  error(expr.location, fmt::format("`{}` is {}, which has no `[t]`", text, what),
        past ? fmt::format("what the next step reads is a state: `state {0}: […]`, `{0}[t] = …`",
                           text)
             : fmt::format("write `{}`", text));
  return value;
}

Value Elaborator::input_or_state_at(const Expr& expr, Binding& binding, int64_t delay) {
  const bool state = binding.kind == Binding::Kind::State;
  const std::string& text = expr.children[0]->text;
  binding.used = true;
  if (frame_->in_initial_value) return bound_name(*expr.children[0], binding);
  if (delay < 0) return error(expr.location, "a step cannot read the future");
  if (delay == (state ? 1 : 0)) return binding.value;
  if (delay == 0) {
    if (binding.given) return binding.next;
    return read_too_early(expr, text + "[t]");
  }
  // Typed, so that what follows is checked.
  error(expr.location,
        fmt::format("reading {} back is not compiled yet",
                    state ? "a state more than one step" : "an input"),
        fmt::format("keep it in a state: `state {0}_last: […]` and `{0}_last[t] = {0}[{1}]`", text,
                    state ? "t-1" : "t"));
  return binding.value;
}

std::optional<int64_t> Elaborator::delay(const Expr& index) {
  if (is_t(index)) return 0;
  const bool sum =
      index.kind == Expr::Kind::Binary && (index.op == BinaryOp::Sub || index.op == BinaryOp::Add);
  if (sum && is_t(*index.children[0]) && !mentions_t(*index.children[1])) {
    const auto steps = integer(*index.children[1], "a delay");
    if (!steps) return std::nullopt;
    return index.op == BinaryOp::Sub ? *steps : -*steps;
  }
  error(index.location, "a step is `t`, or `t` minus a number");
  return std::nullopt;
}

Value Elaborator::apply(Op op, const std::vector<Value>& values, const Expr& whole) {
  if (std::ranges::any_of(values, &Value::is_poison)) return {};
  const bool known = std::ranges::all_of(
      values, [](const Value& value) { return value.kind == Value::Kind::Number; });
  if (known && is_scalar(op)) {
    const auto number = [&](size_t i) { return i < values.size() ? values[i].number : 0; };
    return Value::of_number(evaluate(op, number(0), number(1), number(2)));
  }
  std::vector<Type> types;
  for (const Value& value : values) types.push_back(type_of(value));
  if (!infer_type(op, types)) {
    std::vector<Operand> operands;
    for (size_t i = 0; i < values.size(); ++i) {
      operands.push_back({quote(*whole.children[i]), types[i]});
    }
    const Misfit wrong = misfit(op, quote(whole), operands);
    return error(whole.location, wrong.message + values_in(types), wrong.hint);
  }
  std::vector<NodeId> nodes;
  for (const Value& value : values) nodes.push_back(node_of(value, whole.location));
  return Value::of_node(graph_.apply(op, std::move(nodes), whole.location));
}

}  // namespace rnnc
