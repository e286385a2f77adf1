// Calls: built-in functions are nodes; fns, cells and networks are inlined.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/elaborate/elaborator.h"
#include "frontend/elaborate/fixed_dims.h"
#include "frontend/syntax/habits.h"

namespace rnnc {

using ast::Expr;

namespace {

/// "2 arguments", "1 argument".
std::string counted(size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// Those that put a call's argument into square brackets.
std::vector<Edit> brackets(const Expr& call) {
  const SourceLocation name = call.text_location;
  const SourceLocation inner = call.children[0]->location;
  return {{{name.file, name.end, inner.begin}, "["}, {{name.file, inner.end, inner.end + 1}, "]"}};
}

template <typename List, typename Name>
std::string join_names(const List& list, Name&& name) {
  std::string text;
  for (const auto& item : list) text += (text.empty() ? "" : ", ") + name(item).text;
  return text;
}

}  // namespace

Value Elaborator::call(const Expr& expr) {
  if (const Builtin* builtin = find_builtin(expr.text)) return call_builtin(*builtin, expr);
  if (const ast::Function* callee = context_.function(expr.text)) {
    return call_function(*callee, expr);
  }
  const ast::Definition* callee = context_.definition(expr.text);
  if (!callee) return unknown_callee(expr);
  const std::vector<Value> values = call_definition(*callee, expr);
  if (values.size() == 1) return values[0];
  const std::string names =
      join_names(callee->outputs, [](const ast::Identifier& name) { return name; });
  return error(expr.location,
               fmt::format("`{}` gives {} values ({})", expr.text, values.size(), names),
               fmt::format("give each a name: `({}) = {}(…)`", names, expr.text));
}

/// `h(t-1)`.
bool Elaborator::is_step_in_parentheses(const Expr& expr, const Binding& called) {
  const bool steps = called.kind == Binding::Kind::State || called.kind == Binding::Kind::Input;
  if (!steps || expr.children.size() != 1) return false;
  const Expr& argument = *expr.children[0];
  return is_time_step(argument) ||
         (argument.kind == Expr::Kind::Binary && is_time_step(*argument.children[0]));
}

Value Elaborator::unknown_callee(const Expr& expr) {
  failed_ = true;
  const Binding* binding = frame_->find(expr.text);
  const bool step = binding && is_step_in_parentheses(expr, *binding);
  if (!step) arguments(expr);
  if (binding && binding->kind != Binding::Kind::Poison) {
    return error(expr.text_location,
                 fmt::format("`{}` is {}, not a function", expr.text, describe(binding->kind)),
                 step ? Hint("a step stands in square brackets: `h[t-1]`", brackets(expr))
                      : Hint("a product is written with `*` or `@`"));
  }
  if (const std::string_view habit = habits::of_function(expr.text); !habit.empty()) {
    return error(expr.text_location, fmt::format("unknown function `{}`", expr.text),
                 std::string(habit));
  }
  std::vector<std::string> names = context_.names_of_functions();
  if (frame_->has_layers()) {
    for (std::string& name : context_.names_of_definitions()) names.push_back(std::move(name));
  }
  const bool cell =
      !expr.dims.empty() || expr.layer || (expr.text[0] >= 'A' && expr.text[0] <= 'Z');
  return error(
      expr.text_location, fmt::format("unknown function `{}`", expr.text),
      did_you_mean(expr.text_location, expr.text, names,
                   cell ? "a cell of another file is seen after `import \"file.rnn\"`"
                        : fmt::format("define it outside the cell: `fn {}(v) = …`", expr.text)));
}

std::vector<Value> Elaborator::arguments(const Expr& expr) {
  std::vector<Value> values;
  for (const ast::ExprPtr& argument : expr.children) values.push_back(expression(*argument));
  return values;
}

bool Elaborator::accepts_layer_syntax(const Expr& expr, std::string_view kind) {
  if (expr.dims.empty() && !expr.layer && !expr.reverse) return true;
  const std::string what = !expr.dims.empty() ? "takes no dims"
                           : expr.layer       ? "has no params to name with `as`"
                                              : "cannot run in reverse";
  const SourceLocation place = !expr.dims.empty() ? expr.dims.front().name.location
                               : expr.layer       ? expr.layer->location
                                                  : expr.location;
  error(place, fmt::format("`{}` is {} and {}", expr.text, kind, what),
        "only cells and networks are layers");
  return false;
}

Value Elaborator::call_builtin(const Builtin& builtin, const Expr& expr) {
  using Kind = Builtin::Kind;
  if (!accepts_layer_syntax(expr, "a function")) return {};
  const size_t count = expr.children.size();
  if (count < builtin.fewest || count > builtin.most) {
    arguments(expr);
    const bool range = builtin.fewest != builtin.most;
    return error(expr.location,
                 fmt::format("`{}` takes {}{}, got {}", builtin.name,
                             range ? fmt::format("{} to ", builtin.fewest) : "",
                             counted(builtin.most, "argument"), count),
                 fmt::format("write `{}`", builtin.usage));
  }
  if (builtin.kind == Kind::Eye || builtin.kind == Kind::Range || builtin.kind == Kind::Fill) {
    return filled(builtin, expr);
  }
  if (builtin.kind == Kind::OneHot) return one_hot(expr);
  if (builtin.kind == Kind::Step) return step_number(expr);
  const std::vector<Value> values = arguments(expr);
  if (builtin.kind == Kind::MinMax && count == 1) return apply(builtin.reduction, values, expr);
  if (builtin.kind != Kind::Dot) return apply(builtin.op, values, expr);
  if (std::ranges::any_of(values, &Value::is_poison)) return {};
  for (size_t i = 0; i < count; ++i) {
    if (is_empty(values[i], expr.children[i]->location)) return {};
  }
  if (fit(type_of(values[0]), type_of(values[1])) == Fit::Unknown) return {};
  const std::vector<Type> types = {type_of(values[0]), type_of(values[1])};
  const auto wrong = dot_misfit(
      quote(expr), {{quote(*expr.children[0]), types[0]}, {quote(*expr.children[1]), types[1]}});
  if (wrong) return error(expr.location, wrong->message + values_in(types), wrong->hint);
  return apply(builtin.reduction, {apply(builtin.op, values, expr)}, expr);
}

/// True if the callee is good by itself; an error if it is being checked further out.
template <typename Item>
bool Elaborator::check_callee(const Item& callee, const Expr& expr) {
  if (context_.progress(&callee) == Context::Progress::Running) {
    const bool called = expr.kind == Expr::Kind::Call;
    error(
        called ? expr.text_location : expr.location,
        fmt::format("`{}` is defined by itself{}", callee.name.text, context_.circle(callee.name)),
        called ? "recurrence over time is a state: `h[t-1]`"
               : "a const is made of numbers and of other consts");
    return false;
  }
  if (check(context_, callee)) return true;
  failed_ = true;
  return false;
}
template bool Elaborator::check_callee(const ast::Constant& callee, const Expr& expr);

Value Elaborator::call_function(const ast::Function& function, const Expr& expr) {
  if (!accepts_layer_syntax(expr, "a fn")) return {};
  std::vector<std::optional<Dim>> dims;
  std::vector<Value> values;
  for (const ast::ExprPtr& argument : expr.children) {
    dims.push_back(possible_dim(*argument));
    values.push_back(dims.back() ? Value() : expression(*argument));
  }
  const std::vector<ast::Identifier>& parameters = function.parameters;
  if (values.size() != parameters.size()) {
    return error(expr.location,
                 fmt::format("`{}` takes {}, got {}", expr.text,
                             counted(parameters.size(), "argument"), values.size()),
                 fmt::format("write `{}({})`", expr.text,
                             join_names(parameters, [](const auto& name) { return name; })));
  }
  if (!check_callee(function, expr)) return {};
  Frame frame;
  frame.kind = Frame::Kind::Function;
  frame.file = function.name.location.file;
  for (size_t i = 0; i < values.size(); ++i) {
    Binding& argument = frame.names[parameters[i].text];
    argument.location = parameters[i].location;
    if (const auto& dim = dims[i]) {
      argument.kind = Binding::Kind::Dim;
      argument.dim = *dim;
      argument.argument = expr.children[i].get();
      argument.caller = frame_;
    } else {
      argument.kind = Binding::Kind::Local;
      argument.value = values[i];
    }
  }
  const Inlining inlining(*this, frame, expr);
  return expression(*function.body);
}

/// Whether all arguments behind the inputs are dims or numbers.
bool Elaborator::dims_as_inputs(const Expr& expr, size_t inputs) {
  return expr.children.size() > inputs &&
         std::all_of(expr.children.begin() + static_cast<ptrdiff_t>(inputs), expr.children.end(),
                     [this](const ast::ExprPtr& argument) { return possible_dim(*argument); });
}

bool Elaborator::may_call_definition(const ast::Definition& callee, const Expr& expr) {
  if (frame_->in_initial_value) {
    error(expr.location, "an initial value is made of params and numbers, without layers",
          "a param can stand for it: `state h: [H] = h0`");
    return false;
  }
  if (!frame_->has_layers()) {
    error(expr.location, fmt::format("only a cell or a network can call a {}", callee.kind()),
          "call it there, and pass its value as an argument");
    return false;
  }
  return !expr.reverse || may_reverse(expr);
}

bool Elaborator::may_reverse(const Expr& expr) {
  if (frame_->kind == Frame::Kind::Network && !frame_->in_step) return true;
  error(expr.location, "within a cell, which is one step, nothing runs in reverse",
        "a sequence is reversed by a network: call both cells from one");
  return false;
}

std::vector<Value> Elaborator::call_definition(const ast::Definition& callee, const Expr& expr) {
  std::vector<Value> results(callee.outputs.size());
  const std::vector<Value> values = arguments(expr);
  if (!may_call_definition(callee, expr)) return results;
  for (size_t i = 0; i < values.size(); ++i) {
    if (is_empty(values[i], expr.children[i]->location)) return results;
  }
  if (values.size() != callee.inputs.size()) {
    error(
        expr.location,
        fmt::format("`{}` takes {} ({}), got {}", expr.text, counted(callee.inputs.size(), "input"),
                    join_names(callee.inputs, [](const ast::Input& in) { return in.name; }),
                    values.size()),
        dims_as_inputs(expr, callee.inputs.size())
            ? "dims are given by name: `LSTM[H = 256](x)`"
            : fmt::format("write `{}({})`", expr.text,
                          join_names(callee.inputs, [](const ast::Input& in) { return in.name; })));
    return results;
  }
  if (!context_.enter(expr.location)) {
    failed_ = true;
  } else if (check_callee(callee, expr)) {
    results = inline_layer(callee, expr, values);
  }
  context_.leave();
  return results;
}

std::vector<Value> Elaborator::inline_layer(const ast::Definition& callee, const Expr& expr,
                                            const std::vector<Value>& arguments) {
  std::vector<Value> results(callee.outputs.size());
  Frame frame;
  frame.kind = callee.is_network ? Frame::Kind::Network : Frame::Kind::Cell;
  frame.definition = &callee;
  frame.file = callee.name.location.file;
  frame.reversed = frame_->reversed != expr.reverse;
  frame.in_step = frame_->in_step || frame_->kind == Frame::Kind::Cell;
  frame.prefix = frame_->prefix + layer_name(callee, expr) + ".";
  if (!explicit_dims(callee, expr, frame)) return results;
  if (!inferred_dims(callee, expr, arguments, frame)) return results;
  for (const std::string& name : fixed_dims(context_, callee)) {
    for (const std::string& symbol : frame.find(name)->dim.symbols()) fixed_dims_.insert(symbol);
  }
  if (!layer_inputs(callee, expr, arguments, frame)) return results;
  {
    const Inlining inlining(*this, frame, expr);
    results = body(callee);
  }
  if (expr.reverse) {
    for (Value& result : results) result = backwards(result, expr.location);
  }
  return results;
}

std::string Elaborator::layer_name(const ast::Definition& callee, const Expr& expr) {
  std::string name = expr.layer ? expr.layer->text : callee.name.text;
  const SourceLocation place = expr.layer ? expr.layer->location : expr.text_location;
  const Binding* taken = expr.layer ? frame_->find(name) : nullptr;
  if (taken && (taken->kind == Binding::Kind::Param || taken->kind == Binding::Kind::State)) {
    error(place, fmt::format("`{}` is already {}", name, describe(taken->kind)),
          "choose another name", {{taken->location, "declared here"}});
  }
  if (!expr.layer) {
    name += fmt::format(".{}", frame_->layer_counts[name]++);
  } else if (expr.layer_index) {
    const auto number = integer(*expr.layer_index, "a layer's number");
    if (!number) return name;
    if (*number < 0) {
      error(expr.layer_index->location,
            fmt::format("a layer's number is 0 or more, not {}", *number));
    }
    name += fmt::format(".{}", *number);
  }
  const auto [first, fresh] = frame_->layer_names.emplace(name, place);
  if (fresh) return name;
  const std::string message = fmt::format("two layers are named `{}`", name);
  if (first->second.begin != place.begin) {
    error(place, message, "without `as`, layers are numbered", {{first->second, "first here"}});
  } else {
    error(place, message, fmt::format("number those of a loop: `as {}[l]`", expr.layer->text));
  }
  return name;
}

/// Binds `H = …` of the call; false after an error.
bool Elaborator::explicit_dims(const ast::Definition& callee, const Expr& expr, Frame& frame) {
  bool good = true;
  for (const ast::DimArgument& argument : expr.dims) {
    const std::string& name = argument.name.text;
    const auto value = dim(*argument.value);
    good = good && value && check_extent(*value, argument.value->location);
    if (!callee.has_dim(name)) {
      std::vector<std::string> names;
      for (const ast::DimParameter& parameter : callee.dims) names.push_back(parameter.name.text);
      const std::string list = fmt::format("{}", fmt::join(names, ", "));
      error(argument.name.location, fmt::format("`{}` has no dim `{}`", expr.text, name),
            did_you_mean(argument.name.location, name, names,
                         names.empty() ? "it has none" : "its dims are " + list));
      good = false;
    } else if (frame.find(name)) {
      error(argument.name.location, fmt::format("the dim `{}` is given twice", name),
            "leave one of them out");
      good = false;
    } else {
      Binding& binding = frame.names[name];
      if (value) binding.kind = Binding::Kind::Dim;
      if (value) binding.dim = *value;
      binding.location = argument.name.location;
    }
  }
  return good;
}

/// Binds the callee's other dims: from an argument where an input's dim is a bare symbol, else by
/// default; false after an error.
bool Elaborator::inferred_dims(const ast::Definition& callee, const Expr& expr,
                               const std::vector<Value>& arguments, Frame& frame) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::vector<ast::ExprPtr>& dims = callee.inputs[i].shape;
    if (arguments[i].is_poison()) return false;
    const Shape shape = type_of(arguments[i]).shape;
    if (shape.size() != dims.size()) {
      error(expr.children[i]->location,
            fmt::format("`{}` takes `{}`, but {} is {}", expr.text, print(callee.inputs[i]),
                        quote(*expr.children[i]), describe({shape})),
            "a layer takes one step of one sequence: a vector, or a scalar for `[]`");
      return false;
    }
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const std::string& name = dims[axis]->text;
      if (dims[axis]->kind != Expr::Kind::Name || !callee.has_dim(name)) continue;
      const auto [place, fresh] = frame.names.try_emplace(name);
      if (!fresh) continue;
      place->second.kind = Binding::Kind::Dim;
      place->second.dim = shape[axis];
      place->second.location = expr.children[i]->location;
    }
  }
  bool good = true;
  for (const ast::DimParameter& parameter : callee.dims) {
    if (frame.find(parameter.name.text)) continue;
    std::optional<Dim> value;
    if (parameter.default_value) {
      const Inlining inlining(*this, frame, expr);
      value = dim(*parameter.default_value);
    } else {
      error(expr.text_location,
            fmt::format("the dim `{}` of `{}` is not known here", parameter.name.text, expr.text),
            fmt::format("write `{}[{} = …](…)`", expr.text, parameter.name.text));
    }
    Binding& binding = frame.names[parameter.name.text];
    if (value) binding.kind = Binding::Kind::Dim;
    if (value) binding.dim = *value;
    binding.location = parameter.name.location;
    good = good && value;
  }
  return good;
}

/// Binds the callee's inputs to the arguments; false after an error.
bool Elaborator::layer_inputs(const ast::Definition& callee, const Expr& expr,
                              const std::vector<Value>& arguments, Frame& frame) {
  bool good = true;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ast::Input& input = callee.inputs[i];
    std::optional<Shape> expected;
    {
      const Inlining inlining(*this, frame, expr);
      expected = shape(input.shape);
      Binding& binding = frame.names[input.name.text];
      binding.kind = Binding::Kind::Input;
      binding.location = input.name.location;
      binding.value = expr.reverse ? backwards(arguments[i], expr.location) : arguments[i];
    }
    if (is_integer(arguments[i]) != input.integer && !arguments[i].is_poison()) {
      error(expr.children[i]->location,
            fmt::format("`{}` takes `{}`, but {} is {}", expr.text, print(input),
                        quote(*expr.children[i]), input.integer ? "no integer" : "an integer"),
            input.integer ? "an integer is an input that is declared so: `token: int []`"
                          : "a row that it names is a vector: `table[token]`",
            {{input.name.location, "the input is declared here"}});
      good = false;
    }
    good = good && expected;
    if (!expected || type_of(arguments[i]).shape == *expected) continue;
    const Fit how = fit({*expected}, type_of(arguments[i]));
    good = good && how == Fit::Good;
    if (how != Fit::Bad) continue;
    const Type type = type_of(arguments[i]);
    const std::vector<Type> types = {{*expected}, type};
    std::vector<Diagnostic::Note> notes = {{input.name.location, "the input is declared here"}};
    for (size_t axis = 0; axis < expected->size(); ++axis) {
      const std::string& dim = input.shape[axis]->text;
      if (type.shape[axis] == (*expected)[axis] || !callee.has_dim(dim)) continue;
      notes.push_back(
          {frame.find(dim)->location, fmt::format("this makes the dim `{}` of `{}` {}", dim,
                                                  expr.text, (*expected)[axis].to_string())});
    }
    error(expr.children[i]->location,
          fmt::format("`{}` takes `{}` of shape {}, but {} is {}", expr.text, input.name.text,
                      to_string(*expected), quote(*expr.children[i]), describe(type)) +
              values_in(types),
          misfit_hint(*expected, type), std::move(notes));
  }
  return good;
}

}  // namespace rnnc
