// What stands in brackets: a step in time, an element of an array, an element or a slice of a
// value.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/elaborate/elaborator.h"

namespace rnnc {

using ast::BinaryOp;
using ast::Expr;
using Kind = Binding::Kind;

namespace {

/// Far more than any paper reads; each step back costs an array of the state's size.
constexpr int64_t kLongestDelay = 65536;

/// Whether `t` stands in the brackets themselves: `t`, `t-1`, but not `x[t]`.
bool mentions_step(const Expr& expr) {
  if (is_time_step(expr)) return true;
  const bool arithmetic = expr.kind == Expr::Kind::Binary || expr.kind == Expr::Kind::Negate;
  return arithmetic && std::ranges::any_of(expr.children, [](const ast::ExprPtr& child) {
           return mentions_step(*child);
         });
}

bool begins_with_minus(const Expr& expr) {
  const bool binary = expr.kind == Expr::Kind::Binary;
  return binary ? begins_with_minus(*expr.children[0]) : expr.kind == Expr::Kind::Negate;
}

}  // namespace

Value Elaborator::indexed(const Expr& expr) {
  const bool slice = expr.kind == Expr::Kind::Slice;
  const Expr& base = *expr.children[0];
  const Expr* root = &base;
  while (root->kind == Expr::Kind::Index) root = root->children[0].get();
  const Binding* binding = frame_->find(root->text);
  if (binding && binding->kind == Kind::Poison) return {};
  if (!slice && mentions_step(*expr.children[1])) return at_time(expr);
  if (!slice && base.kind == Expr::Kind::Name && binding && binding->length > 0) {
    Binding& array = *frame_->find(base.text);
    return array.kind == Kind::Local ? given_element(expr, array) : of_array(expr, array);
  }
  if (base.kind == Expr::Kind::Name && binding && has_steps(*binding)) {
    return element_without_step(expr, *frame_->find(base.text));
  }
  const Value value = expression(base);
  if (!is_dense(value, base.location)) return {};
  if (value.kind == Value::Kind::Number || (!value.is_poison() && type_of(value).is_scalar())) {
    return error(expr.location, fmt::format("{} is a scalar and has no elements", quote(base)),
                 fmt::format("write {}", quote(base)));
  }
  return slice ? sliced(expr, value) : element_of(expr, value);
}

/// Whether it is an input or a state of a cell, which is read at a step.
bool Elaborator::has_steps(const Binding& binding) const {
  return frame_->kind == Frame::Kind::Cell && binding.length == 0 && !frame_->in_initial_value &&
         (binding.kind == Kind::Input || binding.kind == Kind::State);
}

/// `x[0]`, `x[T-1]`.
Value Elaborator::element_without_step(const Expr& expr, Binding& binding) {
  binding.used = true;
  const Expr& base = *expr.children[0];
  Hint hint = fmt::format("steps are counted back from this one: `{0}[t]`, `{0}[t-1]`", base.text);
  const Expr* index = expr.children[1].get();
  const bool element = expr.kind == Expr::Kind::Slice || index->kind == Expr::Kind::Number;
  if (element && !type_of(binding.value).is_scalar()) {
    const SourceLocation end = {base.location.file, base.location.end, base.location.end};
    const std::string read = base.text + (binding.kind == Kind::Input ? "[t]" : "[t-1]");
    hint = {fmt::format("the step comes first: `{}{}`", read,
                        expr.kind == Expr::Kind::Slice ? "[…]" : "[" + index->text + "]"),
            {{end, read.substr(base.text.size())}}};
  }
  return error(base.location,
               fmt::format("`{}` is {}: which step is meant?", base.text, describe(binding.kind)),
               std::move(hint));
}

// --- Steps in time.

/// `h[t-1]`, `x[t]`, `s[l][t-1]`.
Value Elaborator::at_time(const Expr& expr) {
  const Expr& base = *expr.children[0];
  const bool in_array = base.kind == Expr::Kind::Index &&
                        base.children[0]->kind == Expr::Kind::Name &&
                        !mentions_step(*base.children[1]);
  if (base.kind != Expr::Kind::Name && !in_array) {
    return error(expr.location, "only a state or an input is read at a step",
                 "the step stands right behind the name: `h[t-1]`");
  }
  const Expr& root = in_array ? *base.children[0] : base;
  if (frame_->kind == Frame::Kind::Function || frame_->kind == Frame::Kind::Constant) {
    const bool function = frame_->kind == Frame::Kind::Function;
    return error(expr.location, function ? "a fn has no time" : "a const has no time",
                 function ? "pass the value at a step as an argument"
                          : "it is made of numbers, other consts and functions of them");
  }
  if (frame_->kind == Frame::Kind::Network) {
    const SourceLocation step = {expr.location.file, base.location.end, expr.location.end};
    error(expr.location, "a network speaks of whole sequences and has no `[t]`",
          is_time_step(*expr.children[1])
              ? Hint(fmt::format("write {}", quote(base)), {{step, ""}})
              : Hint("a cell looks back: `cell Last[H](x: [H]) -> y { y = x[t-1] }`"));
    return frame_->find(root.text) ? expression(base) : Value();
  }
  Binding* binding = frame_->find(root.text);
  if (!binding) {
    if (context_.constant(root.text)) return without_time(expr, "a const", {});
    return unknown_name(root, is_time_step(*expr.children[1]) ? nullptr : &expr);
  }
  binding->used = true;
  const bool local = binding->kind == Kind::Local && !is_time_step(*expr.children[1]);
  if (binding->kind != Kind::Input && binding->kind != Kind::State && !local) {
    const char* what = describe(binding->kind);
    if (!in_array && binding->length > 0) return whole_array(root, *binding);
    return without_time(expr, what, in_array ? expression(base) : binding->value);
  }
  if (frame_->in_initial_value) return not_initial(root, binding->kind);
  if (binding->length > 0 && !in_array) return whole_array(root, *binding);
  if (binding->length == 0 && in_array) {
    return error(
        expr.location, "the step stands in the first brackets",
        fmt::format("write `{}[{}][{}]`", root.text, without_backquotes(quote(*expr.children[1])),
                    without_backquotes(quote(*base.children[1]))));
  }
  if (local) return local_at(expr, *binding);
  const auto steps = delay(*expr.children[1]);
  return steps ? input_or_state_at(expr, *binding, *steps) : Value();
}

Value Elaborator::without_time(const Expr& expr, std::string_view what, Value value) {
  const std::string text = without_backquotes(quote(*expr.children[0]));
  error(expr.location, fmt::format("`{}` is {}, which has no `[t]`", text, what),
        fmt::format("write `{}`", text));
  return value;
}

std::optional<int64_t> Elaborator::delay(const Expr& index) {
  if (is_time_step(index)) return 0;
  const bool sum =
      index.kind == Expr::Kind::Binary && (index.op == BinaryOp::Sub || index.op == BinaryOp::Add);
  if (sum && is_time_step(*index.children[0]) && !mentions_step(*index.children[1])) {
    const auto steps = integer(*index.children[1], "a delay");
    if (!steps) return std::nullopt;
    return index.op == BinaryOp::Sub ? *steps : -*steps;
  }
  error(index.location, "a step is `t`, or `t` minus a number",
        "`[t-1]` is the step before this one, `[t-2]` the one before that");
  return std::nullopt;
}

/// Whether what has `value` at this step is read `delay` steps back; false after an error.
bool Elaborator::may_look_back(const Expr& expr, const std::string& name, Value value,
                               int64_t delay) {
  if (delay < 0) {
    error(expr.location, "a step cannot read the future",
          "it reads `[t]`, `[t-1]` and so on; a network's `reverse` layers start at the end");
  } else if (delay > kLongestDelay) {
    error(expr.location,
          fmt::format("{} reads {} steps back, more than {}", quote(expr), delay, kLongestDelay),
          fmt::format("every step back is kept in memory: read at most {}, or carry a mean of them",
                      kLongestDelay));
  } else if (delay > 0 && is_integer(value)) {
    error(expr.location,
          fmt::format("`{}` is an integer, which is read at its own step alone", name),
          fmt::format("what the next step reads is a state: `state e: [E]`, `e[t] = table[{}]`",
                      frame_->find(name)->kind == Kind::Input ? name + "[t]" : name));
  } else {
    return true;
  }
  return false;
}

Value Elaborator::input_or_state_at(const Expr& expr, Binding& binding, int64_t delay) {
  const Expr& base = *expr.children[0];
  const std::string& name = binding.length > 0 ? base.children[0]->text : base.text;
  if (!may_look_back(expr, name, binding.value, delay)) return {};
  std::optional<int64_t> position = 0;
  if (binding.length > 0) position = element(*base.children[1], name, binding);
  if (!position) return {};
  if (binding.kind == Kind::State && delay == 0) return new_value(expr, binding, *position);
  const Value value = earlier(name, binding, delay, expr.location);
  if (binding.length == 0 || value.is_poison()) return value;
  return Value::of_node(graph_.index(value.node, Dim(*position), expr.location));
}

/// A state's value at t, once the body has given it.
Value Elaborator::new_value(const Expr& expr, Binding& state, int64_t position) {
  Binding::Next& next = state.next[static_cast<size_t>(position)];
  if (next.given) return next.value;
  if (state.length == 0) return read_too_early(expr, expr.children[0]->text + "[t]");
  if (assumed_) {  // another length or range than the assumed one may give it before
    return Value::of_node(graph_.index(state.value.node, Dim(position), expr.location));
  }
  failed_ = true;  // `finish_state` says so, when it knows which line gives it, if any
  if (!next.missed) next.missed = expr.location;
  return {};
}

/// An input or state `delay` steps ago. In a layer, an input may be any value.
Value Elaborator::earlier(const std::string& name, Binding& binding, int64_t delay,
                          SourceLocation location) {
  const bool state = binding.kind == Kind::State;
  if (delay == (state ? 1 : 0)) return binding.value;
  if (!state && !frame_->prefix.empty()) {
    return kept({name, Frame::kNoArray}, type_of(binding.value), delay, location);
  }
  const auto [past, fresh] = binding.past.try_emplace(delay);
  if (fresh) {
    const auto steps = static_cast<uint32_t>(delay);
    past->second = Value::of_node(state ? graph_.state(binding.decl, steps, location)
                                        : graph_.input(binding.decl, steps, location));
  }
  return past->second;
}

/// `u[t-2]`, `a[l][t-1]`: what a local was last given at an earlier step.
Value Elaborator::local_at(const Expr& expr, Binding& local) {
  const Expr& base = *expr.children[0];
  const bool element = local.length > 0;
  const std::string& name = element ? base.children[0]->text : base.text;
  const Value value = element ? given_element(base, local) : local.value;
  const auto steps = delay(*expr.children[1]);
  if (!steps || value.is_poison()) return {};
  if (*steps == 0) return without_time(expr, describe(local.kind), value);
  if (!may_look_back(expr, name, value, *steps) || is_empty(value, base.location)) return {};
  const Type type = type_of(value);
  if (type.rank() > 1) {
    return error(expr.location,
                 fmt::format("{} is {}, and only vectors and scalars are read at earlier steps",
                             quote(base), describe(type)),
                 "a matrix that changes over time is an array of states: `state S[H]: [H]`");
  }
  const auto position = element ? this->element(*base.children[1], name, local) : Frame::kNoArray;
  return position ? kept({name, *position}, type, *steps, expr.location) : Value();
}

/// What a part of the body, which is of `type` now, was `delay` steps ago; zero before the first.
Value Elaborator::kept(const Frame::Part& part, const Type& type, int64_t delay,
                       SourceLocation location) {
  if (!spend(location)) return {};
  const auto [found, fresh] = frame_->kept.try_emplace(part);
  Frame::Kept& kept = found->second;
  if (fresh) {
    const auto& [name, position] = part;
    const std::string element = position == Frame::kNoArray ? "" : fmt::format(".{}", position);
    kept.decl = static_cast<uint32_t>(graph_.states.size());
    kept.read = location;
    graph_.states.push_back({.name = fmt::format("{}{}{}@1", frame_->prefix, name, element),
                             .type = type,
                             .init = node_of(Value::of_number(0), location),
                             .location = location,
                             .reversed = frame_->reversed});
  }
  const auto [past, unknown] = kept.past.try_emplace(delay);
  if (unknown) {
    past->second = Value::of_node(graph_.state(kept.decl, static_cast<uint32_t>(delay), location));
  }
  return past->second;
}

/// The part's value at the step's end is what later steps read.
void Elaborator::finish_kept(const Frame::Part& part, const Frame::Kept& kept) {
  const auto& [name, position] = part;
  const Binding& binding = *frame_->find(name);
  StateDecl& state = graph_.states[kept.decl];
  state.next = kept.past.begin()->second.node;  // where an error or a guess is in the way
  const bool whole = position == Frame::kNoArray;
  if (context_.exhausted()) return;
  if (!whole && binding.length == 0) {
    error(kept.read,
          fmt::format("`{}` is an array here, but at the step's end it is one value", name),
          "give the one value a name of its own", {{binding.location, "given here"}});
    return;
  }
  const Value value = whole ? binding.value : binding.elements.at(position);
  if (value.is_poison() || !is_dense(value, binding.location)) return;
  const Type type = type_of(value);
  if (type.is_scalar() && !state.type.is_scalar()) {
    const NodeId scalar = node_of(value, binding.location);
    state.next = graph_.broadcast(scalar, state.type.shape, binding.location);
  } else if (const Fit how = fit(state.type, type); how == Fit::Good) {
    state.next = node_of(value, binding.location);
  } else if (how == Fit::Bad) {
    error(kept.read,
          fmt::format("`{}` is {} here, but {} at the step's end", name, describe(state.type),
                      describe(type)) +
              values_in({state.type, type}),
          "an earlier step is read below the line that gives the value last",
          {{binding.location, "given here"}});
  }
}

// --- Arrays of params and states.

/// An array's name without an index.
Value Elaborator::whole_array(const Expr& expr, Binding& array) {
  array.used = true;
  const bool state = array.kind == Kind::State;
  const char* const what = state ? "state" : array.kind == Kind::Param ? "param" : "value";
  return error(
      expr.location,
      fmt::format("`{}` is an array of {} {}s: which one is meant?", expr.text, array.length, what),
      fmt::format("they count from 0: `{}[0]{}`", expr.text, state ? "[t-1]" : ""),
      {{array.location, "declared here"}});
}

/// `R[l]`; `s[l]` lacks its step.
Value Elaborator::of_array(const Expr& expr, Binding& array) {
  const std::string& name = expr.children[0]->text;
  array.used = true;
  if (frame_->in_initial_value && array.kind == Kind::State) {
    return not_initial(*expr.children[0], array.kind);
  }
  const auto position = element(*expr.children[1], name, array);
  if (!position) return {};
  Value value = Value::of_node(graph_.index(array.value.node, Dim(*position), expr.location));
  value.blocks = array.value.blocks;
  if (array.kind == Kind::State) {
    const std::string text = without_backquotes(quote(expr));
    error(expr.location, fmt::format("`{}` is a state: which step is meant?", text),
          fmt::format("`{0}[t-1]` is its last value, `{0}[t]` its new one", text));
  }
  return value;
}

/// `a[l]`, of what lines gave one by one.
Value Elaborator::given_element(const Expr& expr, Binding& array) {
  const std::string& name = expr.children[0]->text;
  array.used = true;
  if (frame_->in_initial_value) return not_initial(*expr.children[0], array.kind);
  const auto position = element(*expr.children[1], name, array);
  if (!position) return {};
  const auto found = array.elements.find(*position);
  if (found != array.elements.end()) return found->second;
  if (assumed_) return {};  // for another number than the assumed one it may be given
  return error(expr.location, fmt::format("`{}[{}]` has no value here", name, *position), "",
               {{array.location, "other elements are given here"}});
}

/// The number of an array's element.
std::optional<int64_t> Elaborator::element(const Expr& index, const std::string& name,
                                           const Binding& array) {
  const auto symbolic = position(index, Dim(array.length), "an index");
  const auto position = symbolic ? integer(*symbolic, index.location, "an index") : std::nullopt;
  if (!position || (*position >= 0 && *position < array.length)) return position;
  if (assumed_) return 0;  // another number than the assumed one may be in range
  error(index.location,
        fmt::format("the index {} is out of range: `{}` has {} elements",
                    shown(index, Dim(*position)), name, array.length),
        fmt::format("counting starts at 0, so the last is `{}[{}]`", name, array.length - 1),
        {{array.location, "declared here"}});
  return std::nullopt;
}

// --- Elements and slices of values.

/// A position among `size` elements; what begins with a minus counts from the end.
std::optional<Dim> Elaborator::position(const Expr& expr, const Dim& size, std::string_view noun) {
  const auto value = dim(expr, noun);
  return value && begins_with_minus(expr) ? size + *value : value;
}

/// Whether it is the name of an integer, perhaps with its step.
bool Elaborator::names_integer(const Expr& index) {
  const bool step = index.kind == Expr::Kind::Index && mentions_step(*index.children[1]);
  const Expr& name = step ? *index.children[0] : index;
  const Binding* binding = name.kind == Expr::Kind::Name ? frame_->find(name.text) : nullptr;
  return binding && binding->length == 0 && is_integer(binding->value);
}

/// `table[token[t]]`.
Value Elaborator::row_of(const Expr& expr, Value table) {
  const Expr& base = *expr.children[0];
  const Value index = expression(*expr.children[1]);
  if (table.is_poison() || index.is_poison()) return {};
  const NodeId rows = table.node;
  const Type type = graph_[rows].type;
  if (varies(rows) || type.rank() > 2) {
    return error(base.location,
                 varies(rows)
                     ? fmt::format("{} changes at every step and is no table", quote(base))
                     : fmt::format("{} is {} and is no table", quote(base), describe(type)),
                 "an integer names a row of a param, or of a matrix made of params");
  }
  return Value::of_node(graph_.apply(Op::Rows, {rows, index.node}, expr.location));
}

/// `one_hot(token[t], V)`: 1 at the integer's place, else 0.
Value Elaborator::one_hot(const Expr& expr) {
  const Value integer = expression(*expr.children[0]);
  const auto size = dim(*expr.children[1]);
  if (integer.is_poison() || !size) return {};
  if (!is_integer(integer)) {
    return error(expr.children[0]->location,
                 fmt::format("{} is no integer", quote(*expr.children[0])),
                 "an integer is an input that is declared so: `token: int []`");
  }
  if (!check_extent(*size, expr.children[1]->location)) return {};
  const NodeId number = graph_.apply(Op::Real, {integer.node}, expr.location);
  const NodeId places = graph_.range(*size, expr.location);
  return Value::of_node(graph_.apply(Op::Eq, {places, number}, expr.location));
}

/// `step()`: a state of the graph's own counts, so that resets and lengths hold of it, and whoever
/// carries states carries it.
Value Elaborator::step_number(const Expr& expr) {
  if (frame_->in_initial_value || !frame_->has_layers()) {
    return error(expr.location,
                 frame_->in_initial_value ? "an initial value has no step"
                                          : "only a cell or a network has steps",
                 "pass the number of the step as an argument, or write it where states are given");
  }
  NodeId& known = steps_[frame_->reversed ? 1 : 0];
  if (known != kNoNode) return Value::of_node(known);
  const NodeId zero = node_of(Value::of_number(0), expr.location);
  const NodeId one = node_of(Value::of_number(1), expr.location);
  const auto decl = static_cast<uint32_t>(graph_.states.size());
  graph_.states.push_back({.name = frame_->reversed ? "reverse.t@1" : "t@1",
                           .type = {},
                           .init = zero,
                           .location = expr.location,
                           .reversed = frame_->reversed});
  known = graph_.state(decl, 1, expr.location);
  graph_.states[decl].next = graph_.apply(Op::Add, {known, one}, expr.location);
  return Value::of_node(known);
}

/// `v[i]`.
Value Elaborator::element_of(const Expr& expr, Value value) {
  const Expr& index = *expr.children[1];
  if (names_integer(index)) return row_of(expr, value);
  const Dim size = value.is_poison() ? Dim() : type_of(value).shape[0];
  const auto position = this->position(index, size, "an index");
  if (!position || value.is_poison()) return {};
  if (exceeds(0, *position) || exceeds(*position + 1, size)) {
    const std::string base = quote(*expr.children[0]);
    return error(index.location,
                 fmt::format("the index {} is out of range: {} has {} elements",
                             shown(index, *position), base, size.to_string()) +
                     values_in({Type{{size, *position}}}),
                 fmt::format("counting starts at 0, so the last is `{}[{}]`",
                             without_backquotes(base), (size - 1).to_string()));
  }
  if (!check_whole(*position, index.location)) return {};
  return Value::of_node(graph_.index(value.node, *position, expr.location));
}

/// `v[a:b]`, on the first axis.
Value Elaborator::sliced(const Expr& expr, Value value) {
  const Expr* const low = expr.children[1].get();
  const Expr* const high = expr.children[2].get();
  const Dim size = value.is_poison() ? Dim() : type_of(value).shape[0];
  const auto begin = low ? position(*low, size, "a slice's end") : std::optional(Dim(0));
  const auto end = high ? position(*high, size, "a slice's end") : std::optional(size);
  if (!begin || !end || value.is_poison()) return {};
  const std::string values = values_in({Type{{size, *begin, *end}}});
  const std::string text = quote(expr);
  if (exceeds(0, *begin) || exceeds(*end, size)) {
    return error(expr.location,
                 fmt::format("the slice {} is out of range: {} has {} elements", text,
                             quote(*expr.children[0]), size.to_string()) +
                     values,
                 "positions count from 0, or with a `-` in front from the end");
  }
  if (exceeds(*begin + 1, *end)) {
    return error(expr.location, fmt::format("the slice {} is empty", text) + values,
                 "a range is half-open: `v[0:2]` has the elements 0 and 1");
  }
  if (low && !check_whole(*begin, low->location)) return {};
  if (high && !check_whole(*end, high->location)) return {};
  return Value::of_node(graph_.slice(value.node, *begin, *end, expr.location));
}

/// Whether `low` is known to be above `high`.
bool Elaborator::exceeds(const Dim& low, const Dim& high) const {
  const auto room = (high - low).bind(given_).constant();
  return room && *room < 0 && !assumed_;
}

/// "`l` (= 3)": a position as written, and its number where it has one.
std::string Elaborator::shown(const Expr& index, const Dim& position) const {
  const auto number = position.constant();
  if (!number || index.kind == Expr::Kind::Number || index.kind == Expr::Kind::Negate) {
    return quote(index);
  }
  return fmt::format("{} (= {})", quote(index), *number);
}

/// `eye(H)`, `range(H)`, `zeros(H)`, `ones(H, I)`.
Value Elaborator::filled(const Builtin& builtin, const Expr& expr) {
  const auto length = dim(*expr.children.front());
  if (length == Dim(0) && builtin.kind != Builtin::Kind::Eye) return Value::of_nothing();
  const std::optional<Shape> dims = shape(expr.children);
  if (!dims) return {};
  if (builtin.kind == Builtin::Kind::Eye) {
    return Value::of_node(graph_.eye(dims->front(), expr.location));
  }
  if (builtin.kind == Builtin::Kind::Range) {
    return Value::of_node(graph_.range(dims->front(), expr.location));
  }
  const NodeId number = node_of(Value::of_number(builtin.number), expr.location);
  return Value::of_node(graph_.broadcast(number, *dims, expr.location));
}

}  // namespace rnnc
