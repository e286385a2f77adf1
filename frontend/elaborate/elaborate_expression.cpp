// Expressions: names, steps in time, operators.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/elaborate/elaborator.h"
#include "frontend/syntax/habits.h"

namespace rnnc {

using ast::BinaryOp;
using ast::Expr;
using Kind = Binding::Kind;

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
  tell(expr.location, result);
  return result;
}

Value Elaborator::name(const Expr& expr) {
  if (is_time_step(expr)) {
    return error(expr.location, "`t` names the step and stands only in brackets: `h[t-1]`",
                 "the number of the step is `step()`");
  }
  if (Binding* binding = frame_->find(expr.text)) return bound_name(expr, *binding);
  if (const ast::Constant* constant = context_.constant(expr.text)) {
    if (!check_callee(*constant, expr)) return {};
    return Value::of_number(context_.constant_values()[constant]);
  }
  return unknown_name(expr);
}

Value Elaborator::bound_name(const Expr& expr, Binding& binding) {
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
      if (steps) which_step(expr, binding);
      return binding.value;
    case Kind::Param:
    case Kind::Local:
      return binding.value;
    case Kind::Poison:
      break;
  }
  return {};
}

/// An input or a state without its step.
void Elaborator::which_step(const Expr& expr, const Binding& binding) {
  Hint hint = fmt::format("`{0}[t-1]` is its last value, `{0}[t]` its new one", expr.text);
  if (binding.kind == Kind::Input) {
    hint = fmt::format("`{}[t]` is its value at this step", expr.text);
    const SourceLocation place = expr.location;
    const bool bare = place.end - place.begin == expr.text.size();  // no parentheses around it
    if (bare) hint.edits = {{{place.file, place.end, place.end}, "[t]"}};
  }
  error(expr.location,
        fmt::format("`{}` is {}: which step is meant?", expr.text, describe(binding.kind)),
        std::move(hint));
}

Value Elaborator::not_initial(const Expr& expr, Binding::Kind kind) {
  return error(expr.location,
               fmt::format("`{}` is {}, but an initial value is made of params and numbers",
                           expr.text, describe(kind)),
               "a param can stand for it: `state h: [H] = h0`");
}

Value Elaborator::unknown_name(const Expr& expr, const Expr* read) {
  failed_ = true;
  const auto is_given = [&](const Frame::Given& given) { return given.name == expr.text; };
  if (std::ranges::any_of(frame_->given(), is_given)) {
    if (frame_->in_initial_value) return not_initial(expr, Binding::Kind::Local);
    if (!read) return read_too_early(expr, expr.text);
    const std::string text = quote(*read);
    return read_too_early(*read, text.substr(1, text.size() - 2));
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
            : "a const is made of numbers and of other consts";
    error(expr.location, fmt::format("unknown name `{}`", expr.text),
          habitual_name(expr).value_or(did_you_mean(expr.location, expr.text, names, hint)));
  }
  frame_->names[expr.text] = {};  // once is enough
  return {};
}

/// `h_prev`, `x_t`, `pi`: names that papers and other languages give meanings.
std::optional<Hint> Elaborator::habitual_name(const Expr& expr) {
  const std::string_view habit = habits::of_value(expr.text);
  if (!habit.empty()) return std::string(habit);
  // `h_prev`, or `ht`.
  const size_t bar = std::min(expr.text.find('_'), expr.text.size() - 1);
  const std::string first = expr.text.substr(0, bar);
  const std::string rest = expr.text.substr(expr.text[bar] == '_' ? bar + 1 : bar);
  const auto has_steps = [&](const std::string& name) {
    const Binding* binding = frame_->find(name);
    return frame_->kind == Frame::Kind::Cell && binding && binding->length == 0 &&
           (binding->kind == Kind::State || binding->kind == Kind::Input);
  };
  const auto is_one_of = [](const std::string& word, std::initializer_list<const char*> words) {
    return std::ranges::find(words, word) != words.end();
  };
  const auto earlier = {"prev", "old", "last", "tm1", "previous", "t_1", "0"};
  std::string meant;
  if (has_steps(first) && is_one_of(rest, earlier)) {
    meant = first + "[t-1]";
  } else if (has_steps(rest) && is_one_of(first, earlier)) {
    meant = rest + "[t-1]";
  } else if (has_steps(first) && is_one_of(rest, {"t", "cur", "curr", "now", "current"})) {
    meant = first + "[t]";
  } else {
    return std::nullopt;
  }
  return Hint(fmt::format("write `{}`", meant), {{expr.location, meant}});
}

// `text` is "c", "c[t]" or, of a local, "c[t-1]".
Value Elaborator::read_too_early(const Expr& expr, const std::string& text) {
  failed_ = true;
  const std::string name = text.substr(0, text.find('['));
  const Frame::Given* nearest = nullptr;
  const std::vector<Frame::Given> all = frame_->given();
  for (const Frame::Given& given : all) {
    if (given.name != name) continue;
    const bool after = given.statement.end > expr.location.begin;
    if (!nearest || (after && nearest->statement.end <= expr.location.begin)) nearest = &given;
  }
  if (!nearest) return {};  // a state that no line gives: reported at its declaration
  const std::vector<Diagnostic::Note> note = {{nearest->target, "given here"}};
  const std::string line = context_.line_of(nearest->target);
  const bool local = !frame_->find(name);
  const Hint carried = local ? Hint(fmt::format("what a step reads before giving it is a state: "
                                                "`state {0}: […]`, `{0}[t] = …`",
                                                name))
                             : last_value(expr, name);
  if (contains(nearest->statement, expr.location)) {
    return error(expr.location, fmt::format("`{}` is read in the line that first gives it", text),
                 text == name
                     ? Hint("give it a first value above; what is carried from step to step is a "
                            "state")
                     : carried);
  }
  if (nearest->statement.end <= expr.location.begin) {
    return error(expr.location, fmt::format("`{}` has no value here: {} did not run", text, line),
                 "the range of its loop is empty", note);
  }
  return error(expr.location, fmt::format("`{}` is read before {} gives it", text, line),
               text == name ? Hint(fmt::format("{} belongs above this one", line)) : carried, note);
}

Hint Elaborator::last_value(const Expr& read, const std::string& name) {
  const std::string last = name + "[t-1]";
  return {fmt::format("the last step's value is `{}`", last), {{read.location, last}}};
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
  for (size_t i = 0; i < values.size(); ++i) {
    Value value = values[i];
    const SourceLocation place = whole.children[i]->location;
    if (is_integer(value) && info(op).nan_rule == NanRule::Compare) {
      value = Value::of_node(graph_.apply(Op::Real, {value.node}, place));
    } else if (!is_real(value, place)) {
      return {};
    }
    parts.push_back({value, place});
  }
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
    if (is_empty(elements[i], part) || !is_real(elements[i], part)) return {};
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
  if (!spend_terms(whole.location, type->shape)) return {};
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
          operand_hint(graph_[operands[i]], text.substr(1, text.size() - 2)));
    return false;
  }
  if (!varying || result.rank() < 2) return true;
  error(whole.location,
        fmt::format("{} makes a new {} at every step: over time only vectors and "
                    "scalars take part in arithmetic",
                    quote(whole), describe(result)),
        "rows can be states of their own: `state S[H]: [H]`, and each is given in a loop");
  return false;
}

/// How arithmetic gets at a matrix that varies over time.
std::string Elaborator::operand_hint(const Node& matrix, const std::string& text) const {
  if (matrix.op != Op::State) return fmt::format("its rows are vectors: `{}[0]`", text);
  const StateDecl& state = graph_.states[matrix.decl];
  return fmt::format(
      "let each row be a state: `state {0}[{1}]: [{2}]`, and `for i in 0..{1} {{ {0}[i][t] = … }}`",
      state.name.substr(frame_->prefix.size()), state.type.shape[0].to_string(),
      state.type.shape[1].to_string());
}

/// True, after an error, of an empty vector where one with elements is needed.
bool Elaborator::is_empty(Value value, SourceLocation location) {
  if (value.kind != Value::Kind::Empty) return false;
  error(location,
        fmt::format("{} is empty, and only `concat` takes that", context_.quote(location)));
  return true;
}

bool Elaborator::is_integer(Value value) const {
  return value.kind == Value::Kind::Node && rnnc::is_integer(graph_, value.node);
}

/// False, after an error, of an integer, which takes no part in arithmetic.
bool Elaborator::is_real(Value value, SourceLocation location) {
  if (!is_integer(value)) return true;
  const std::string text = context_.quote(location);
  const std::string bare = text.substr(1, text.size() - 2);
  error(location, fmt::format("{} is an integer, which takes no part in arithmetic", text),
        fmt::format("it names a row, `table[{0}]`, becomes `one_hot({0}, V)`, or is compared: "
                    "`{0} == 0`",
                    bare));
  return false;
}

/// False, after an error, if the value is a block-diagonal param, empty, or an integer.
bool Elaborator::is_dense(Value value, SourceLocation location) {
  if (is_empty(value, location) || !is_real(value, location)) return false;
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
