// Declarations of states and params: single ones, arrays, block-diagonal matrices.

#include <fmt/format.h>

#include "frontend/elaborate/elaborator.h"

namespace rnnc {

using ast::Declaration;
using Kind = Binding::Kind;

namespace {

constexpr size_t kMostElementRank = 2;  // of an array

}  // namespace

void Elaborator::declare(const Declaration& declaration) {
  std::optional<Shape> element = shape(declaration.shape);
  const ast::Identifier& first = declaration.entries.front().name;
  if (declaration.is_state && frame_->kind == Frame::Kind::Network) {
    error(first.location, "a network has no state of its own",
          "put the state into a cell and call that");
    element.reset();
  }
  if (declaration.blocks) element = blocks(declaration, element);
  if (declaration.initial && !declaration.is_state) {
    error(declaration.initial->location, "a param has no value of its own: it is an argument",
          "weights come with a run; a fixed number is a `const`");
  }
  for (const Declaration::Entry& entry : declaration.entries) {
    declare_entry(declaration, entry, element);
  }
}

/// [N, H / N, K / N] for `[H, K] blocks N`.
std::optional<Shape> Elaborator::blocks(const Declaration& declaration,
                                        const std::optional<Shape>& dense) {
  const ast::Expr& count = *declaration.blocks;
  if (declaration.is_state) {
    error(count.location, "a state has no blocks", "only params can be block-diagonal");
    return std::nullopt;
  }
  const auto number = dim(count, "a block count");
  if (!number || !check_extent(*number, count.location) || !dense) return std::nullopt;
  if (dense->size() != 2) {
    error(count.location,
          fmt::format("only a matrix has blocks, but this is {}", describe(Type{*dense})),
          "write `param R: [H, H] blocks N`");
    return std::nullopt;
  }
  Shape result = {*number};
  for (const Dim& whole : *dense) {
    const auto part = Dim::divide(whole, *number);
    if (!part) {
      error(
          count.location,
          fmt::format("the block count {} is a sum, which dims cannot be divided by", quote(count)),
          "declare a dim for it: `cell NAME[H, N = 4]`");
      return std::nullopt;
    }
    const Dim known = part->bind(known_dims());
    if (known.symbols().empty() && !known.constant()) {
      error(count.location,
            fmt::format("{} blocks do not divide `{}`", quote(count), whole.to_string()) +
                values_in({Type{{whole, *number}}}),
            "rows and columns are both cut into that many equal parts");
      return std::nullopt;
    }
    result.push_back(*part);
  }
  return result;
}

void Elaborator::declare_entry(const Declaration& declaration, const Declaration::Entry& entry,
                               const std::optional<Shape>& element) {
  const ast::Identifier& name = entry.name;
  Binding binding;
  std::optional<Shape> shape = element;
  if (entry.length) shape = array(declaration, *entry.length, element, binding.length);
  // Calls in a loop declare again and again.
  const bool allowed = spend(name.location, declaration.is_state ? binding.length : 1);
  if (shape && allowed) binding.kind = declaration.is_state ? Kind::State : Kind::Param;
  Binding* bound = bind(name, std::move(binding));
  if (!bound || bound->kind == Kind::Poison) return;
  for (Dim& dim : *shape) dim = dim.bind(fixed_);
  const std::string full_name = frame_->prefix + name.text;
  if (declaration.is_state) {
    bound->decl = static_cast<uint32_t>(graph_.states.size());
    graph_.states.push_back(
        {full_name, {*shape}, kNoNode, kNoNode, name.location, frame_->reversed});
    bound->value = Value::of_node(graph_.state(bound->decl, 1, name.location));
    bound->next.resize(entry.length ? static_cast<size_t>(bound->length) : 1);
  } else {
    graph_.params.push_back({full_name, {*shape}, name.location});
    const auto decl = static_cast<uint32_t>(graph_.params.size() - 1);
    bound->value = Value::of_node(graph_.param(decl, name.location));
    bound->value.blocks = declaration.blocks != nullptr;
  }
  tell(name.location, bound->value);
}

/// [L, …] for an array of L; its number is `length`.
std::optional<Shape> Elaborator::array(const Declaration& declaration, const ast::Expr& extent,
                                       const std::optional<Shape>& element, int64_t& length) {
  const auto number = fixed_integer(extent, "an array's length");
  if (!number) return std::nullopt;
  if (*number < 1 || *number > Context::kLongestArray) {
    error(extent.location,
          fmt::format("an array has 1 to {} elements, not {}", Context::kLongestArray, *number),
          "what is longer is an axis of a shape: `param R: [L, H]`");
    return std::nullopt;
  }
  if (!element) return std::nullopt;
  if (element->size() > kMostElementRank && !declaration.blocks) {
    error(extent.location,
          fmt::format("the elements of an array have at most {} dims, these have {}",
                      kMostElementRank, element->size()),
          "write one axis less, or make it two arrays");
    return std::nullopt;
  }
  length = *number;
  Shape shape = {*number};
  shape.insert(shape.end(), element->begin(), element->end());
  return shape;
}

void Elaborator::initial_value(const Declaration& declaration) {
  Value value = Value::of_number(0);
  if (declaration.initial) {
    frame_->in_initial_value = true;
    value = expression(*declaration.initial);
    frame_->in_initial_value = false;
    if (!is_dense(value, declaration.initial->location)) return;
  }
  if (value.is_poison()) return;
  for (const Declaration::Entry& entry : declaration.entries) {
    const Binding* state = frame_->find(entry.name.text);
    if (!state || state->kind != Kind::State) continue;
    const Type element = element_type(*state);
    const Type type = type_of(value);
    const NodeId node = node_of(value, entry.name.location);
    NodeId& init = graph_.states[state->decl].init;
    const bool is_whole = fit(graph_.states[state->decl].type, type) == Fit::Good;
    const Fit how = is_whole ? Fit::Good : fit(element, type);
    if (type.is_scalar() || is_whole) {
      init = node;
    } else if (how == Fit::Good) {
      init = graph_.apply(Op::Stack, std::vector(static_cast<size_t>(state->length), node),
                          entry.name.location);
    } else if (how == Fit::Bad) {
      error(declaration.initial->location,
            fmt::format("the state `{}` is {}, but its initial value is {}", entry.name.text,
                        describe(element), describe(type)) +
                values_in({element, type}),
            "a scalar spreads over any shape; a param can have the state's");
    }
  }
}

Type Elaborator::element_type(const Binding& binding) const {
  Type type = type_of(binding.value);
  if (binding.length > 0) type.shape.erase(type.shape.begin());
  return type;
}

/// Every state's value at t, or errors for those that the body does not give.
void Elaborator::finish_states() {
  for (auto& [name, binding] : frame_->names) {
    if (binding.kind == Kind::State && !context_.exhausted()) finish_state(name, binding);
  }
}

void Elaborator::finish_state(const std::string& name, Binding& state) {
  std::vector<NodeId> elements;
  for (size_t i = 0; i < state.next.size(); ++i) {
    const Binding::Next& next = state.next[i];
    const std::string element = state.length > 0 ? fmt::format("{}[{}]", name, i) : name;
    if (next.given && next.missed) {
      error(
          *next.missed,
          fmt::format("`{}[t]` is read before {} gives it", element, context_.line_of(*next.given)),
          fmt::format("the last step's value is `{}[t-1]`", element),
          {{*next.given, "given here"}});
    } else if (next.given) {
      if (!next.value.is_poison()) elements.push_back(next.value.node);
    } else if (state.length > 0 && assumed_) {
      // Another length or range than the assumed one may give it.
      const Dim position = static_cast<int64_t>(i);
      elements.push_back(graph_.index(state.value.node, position, state.location));
    } else {
      error(state.location, fmt::format("`{}[t]` is never given", element),
            state.length > 0
                ? fmt::format("the body must say what it becomes: `{}[t] = …`", element)
                : state_to_be_given(name));
      return;
    }
  }
  if (elements.size() != state.next.size()) return;
  StateDecl& decl = graph_.states[state.decl];
  if (state.length == 0) {
    decl.next = elements[0];
    return;
  }
  decl.next = graph_.apply(Op::Stack, std::move(elements), state.location);
}

/// For a state that no line gives: perhaps one gives `h_t` or `h_new`.
Hint Elaborator::state_to_be_given(const std::string& name) const {
  for (const Frame::Given& given : frame_->given()) {
    const bool alike = given.name.starts_with(name + "_") || given.name.ends_with("_" + name) ||
                       given.name == name + "t" || ascii_look(given.name) == ascii_look(name);
    if (!alike || frame_->find(given.name)->kind != Kind::Local) continue;
    return {fmt::format("{} gives `{}`: write `{}[t] = …`", context_.line_of(given.target),
                        given.name, name),
            {{given.target, name + "[t]"}}};
  }
  return fmt::format("the body must say what it becomes: `{}[t] = …`", name);
}

Binding* Elaborator::bind(const ast::Identifier& name, Binding binding) {
  binding.location = name.location;
  if (const ast::Constant* constant = context_.constant(name.text)) {
    error(name.location, fmt::format("`{}` is already a const", name.text), "choose another name",
          {{constant->name.location, "declared here"}});
    return nullptr;
  }
  const auto [place, fresh] = frame_->names.try_emplace(name.text, std::move(binding));
  if (fresh) return &place->second;
  const Binding& first = place->second;
  if (first.kind == Kind::Poison) {
    failed_ = true;
    return nullptr;
  }
  error(name.location, fmt::format("`{}` is already {}", name.text, describe(first.kind)),
        "choose another name", {{first.location, "declared here"}});
  return nullptr;
}

}  // namespace rnnc
