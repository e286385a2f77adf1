// Bodies: declarations first, since their order does not matter, then statements from top to
// bottom, then outputs.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "frontend/elaborate/elaborator.h"

namespace rnnc {

using ast::Declaration;
using Kind = Binding::Kind;

namespace {

/// "(h, c)", or "h" alone.
std::string join_outputs(const std::vector<ast::Identifier>& outputs) {
  std::string list;
  for (const ast::Identifier& name : outputs) list += (list.empty() ? "" : ", ") + name.text;
  return outputs.size() == 1 ? list : "(" + list + ")";
}

}  // namespace

void Elaborator::top_level_dims(const ast::Definition& definition) {
  for (const ast::DimParameter& parameter : definition.dims) {
    std::optional<int64_t> number;
    if (parameter.default_value) {
      const ast::Expr& expr = *parameter.default_value;
      const auto value = dim(expr);
      number = value ? value->constant() : std::nullopt;
      if (value && !number) {
        error(expr.location,
              fmt::format("the default of `{}` must be a whole number, not {}", parameter.name.text,
                          quote(expr)),
              "a dim that follows from others is written so where it is used: `[2 * H]`");
      } else if (number && *number < 1) {
        error(expr.location,
              fmt::format("the default of `{}` is {}, but dims start at 1", parameter.name.text,
                          *number),
              "a dim may be left without a default");
      }
    }
    Binding binding;
    binding.kind = Kind::Dim;
    binding.dim = Dim::symbol(parameter.name.text);
    if (!bind(parameter.name, std::move(binding))) continue;
    graph_.dims.push_back({parameter.name.text, number});
    if (number && *number >= 1) defaults_[parameter.name.text] = *number;
  }
}

void Elaborator::top_level_inputs(const ast::Definition& definition) {
  for (const ast::Input& input : definition.inputs) {
    const std::optional<Shape> type = shape(input.shape);
    Binding binding;
    binding.kind = type ? Kind::Input : Kind::Poison;
    Binding* bound = bind(input.name, std::move(binding));
    if (!bound || !type) continue;
    graph_.inputs.push_back({input.name.text, {*type}, input.name.location, input.integer});
    bound->decl = static_cast<uint32_t>(graph_.inputs.size() - 1);
    bound->value = Value::of_node(graph_.input(bound->decl, 0, input.name.location));
    tell(input.name.location, bound->value);
  }
}

/// Elaborates the body with dims and inputs bound; gives the outputs' values.
std::vector<Value> Elaborator::body(const ast::Definition& definition) {
  for (const ast::Statement& statement : definition.body) {
    if (const auto* declaration = std::get_if<Declaration>(&statement.node)) declare(*declaration);
  }
  for (const ast::Statement& statement : definition.body) {
    if (const auto* declaration = std::get_if<Declaration>(&statement.node)) {
      if (declaration->is_state) initial_value(*declaration);
    }
  }
  statements(definition.body, /*in_loop=*/false);
  finish_states();
  for (const auto& [part, kept] : frame_->kept) finish_kept(part, kept);
  std::vector<Value> values;
  std::set<std::string_view> seen;
  for (const ast::Identifier& name : definition.outputs) {
    if (context_.exhausted()) break;
    if (!seen.insert(name.text).second) {
      error(name.location, fmt::format("the output `{}` is there twice", name.text),
            "leave one of them out");
    }
    values.push_back(output(name));
  }
  return values;
}

void Elaborator::statements(const std::vector<ast::Statement>& list, bool in_loop) {
  for (const ast::Statement& statement : list) {
    if (context_.exhausted()) {
      failed_ = true;
      return;
    }
    if (const auto* assigned = std::get_if<ast::Assignment>(&statement.node)) {
      assignment(*assigned);
    } else if (const auto* repeated = std::get_if<ast::Loop>(&statement.node)) {
      loop(*repeated);
    } else if (in_loop) {
      const auto& declaration = std::get<Declaration>(statement.node);
      error(
          declaration.entries.front().name.location, "a loop declares nothing",
          "declare it in the body itself; what each turn needs is an array: `param R[L]: [H, H]`");
      for (const Declaration::Entry& entry : declaration.entries) {
        frame_->names.try_emplace(entry.name.text);
      }
    }
  }
}

void Elaborator::loop(const ast::Loop& loop) {
  const auto begin = fixed_integer(*loop.begin, "a loop's bound");
  const auto end = fixed_integer(*loop.end, "a loop's bound");
  Binding* index = bind(loop.index, {});
  if (!begin || !end) {
    statements(loop.body, /*in_loop=*/true);  // once, for the errors inside
  } else {
    std::vector<Context::RunningLoop>& running = context_.running_loops();
    SourceLocation range = loop.begin->location;
    range.end = loop.end->location.end;
    running.push_back({.place = loop.index.location,
                       .range = range,
                       .turns = *end - *begin,
                       .spent_before = context_.spent()});
    for (int64_t i = *begin; i < *end; ++i) {
      running.back().done = i - *begin;
      if (!spend(loop.index.location)) break;
      if (index) {
        index->kind = Kind::LoopIndex;
        index->dim = Dim(i);
      }
      statements(loop.body, /*in_loop=*/true);
    }
    running.pop_back();
  }
  if (index) frame_->names.erase(loop.index.text);
}

void Elaborator::assignment(const ast::Assignment& assignment) {
  const ast::Expr& value = *assignment.value;
  const size_t count = assignment.targets.size();
  const size_t first_node = graph_.nodes.size();
  std::vector<Value> values;
  if (count == 1) {
    values.push_back(expression(value));
  } else {
    const ast::Definition* callee =
        value.kind == ast::Expr::Kind::Call ? context_.definition(value.text) : nullptr;
    if (callee) {
      values = call_definition(*callee, value);
      if (values.size() != count) {
        error(value.location,
              fmt::format("`{}` gives {} value{}, but {} names are on the left", value.text,
                          values.size(), values.size() == 1 ? "" : "s", count),
              fmt::format("write `{} = {}(…)`", join_outputs(callee->outputs), value.text));
      }
    } else if (!expression(value).is_poison()) {
      error(value.location,
            fmt::format("{} gives one value, but {} names are on the left", quote(value), count),
            "only the call of a cell or network gives several");
    }
    values.resize(count);
  }
  for (size_t i = 0; i < count; ++i) {
    const ast::Target& target = assignment.targets[i];
    const auto first = std::ranges::find(assignment.targets, target.name.text,
                                         [](const ast::Target& t) { return t.name.text; });
    // A state's second value is told by assign_state.
    if (target.indices.empty() && first->location.begin != target.location.begin) {
      error(target.location, fmt::format("`{}` is given twice by one line", target.name.text),
            "each value needs a name of its own", {{first->location, "first here"}});
    }
    assign(target, values[i], value);
    tell(target.name.location, values[i]);
  }
  name_equation(assignment, first_node);
}

/// Nodes from `first_node` on are part of this equation, but for those of equations in calls.
void Elaborator::name_equation(const ast::Assignment& assignment, size_t first_node) {
  if (failed_) return;
  const auto number = static_cast<uint32_t>(graph_.equations.size() + 1);
  bool found = false;
  for (size_t id = first_node; id < graph_.nodes.size(); ++id) {
    uint32_t& equation = graph_.nodes[id].location.equation;
    if (equation != 0) continue;
    equation = number;
    found = true;
  }
  if (!found) return;
  std::string names;
  for (const ast::Target& target : assignment.targets) {
    names += (names.empty() ? "" : ", ") + frame_->prefix + target.name.text;
    for (const ast::ExprPtr& index : target.indices) {
      const std::optional<Dim> at = is_time_step(*index) ? std::nullopt : possible_dim(*index);
      names += fmt::format("[{}]", at ? at->to_string() : "t");
    }
  }
  graph_.equations.push_back({std::move(names), assignment.value->location});
}

void Elaborator::assign(const ast::Target& target, Value value, const ast::Expr& expr) {
  const ast::Identifier& name = target.name;
  Binding* binding = frame_->find(name.text);
  if (binding && binding->kind == Kind::State) {
    return assign_state(*binding, target, value, expr);
  }
  if (binding && binding->kind != Kind::Local && binding->kind != Kind::Poison) {
    error(target.location,
          fmt::format("`{}` is {} and cannot be given a value", name.text, describe(binding->kind)),
          "choose a name of its own", {{binding->location, "declared here"}});
    return;
  }
  if (const ast::Constant* constant = context_.constant(name.text)) {
    error(target.location, fmt::format("`{}` is a const and cannot be given a value", name.text),
          "choose a name of its own", {{constant->name.location, "declared here"}});
    return;
  }
  if (target.indices.size() == 1 && !is_time_step(*target.indices[0])) {
    return assign_element(target, value);
  }
  if (!target.indices.empty()) {
    if (binding && binding->kind == Kind::Poison) return;
    error(target.location,
          fmt::format("`{}` is not a state, so it is given without brackets", name.text),
          did_you_mean(name.location, name.text, names_of(Kind::State),
                       fmt::format("write `{0} = …`, or `{0}[l] = …` for one of an array, or "
                                   "declare `state {0}: […]`",
                                   name.text)));
  }
  Binding local;
  local.kind = Kind::Local;
  local.location = name.location;
  local.value = value;
  if (frame_->kind == Frame::Kind::Cell) local.position = position_of_local(expr);
  frame_->names[name.text] = std::move(local);
}

/// `a[l] = …`: the first makes `a` an array.
void Elaborator::assign_element(const ast::Target& target, Value value) {
  const ast::Identifier& name = target.name;
  const ast::Expr& index = *target.indices[0];
  const auto position = integer(index, "an index");
  Binding& array = frame_->names[name.text];
  if (array.kind == Kind::Local && array.length == 0) {
    error(target.location,
          fmt::format("`{}` is one value, whose elements are not given one by one", name.text),
          "choose another name for an array, or put pieces together with `concat`",
          {{array.location, "given here"}});
    return;
  }
  if (!position) return;
  if (*position < 0 || *position >= Context::kLongestArray) {
    error(index.location, fmt::format("an array's elements count from 0 to {}, not {}",
                                      Context::kLongestArray - 1, *position));
    return;
  }
  if (array.length == 0) array.location = name.location;
  array.kind = Kind::Local;
  array.elements[*position] = value;
  array.length = std::max(array.length, *position + 1);
}

void Elaborator::assign_state(Binding& state, const ast::Target& target, Value value,
                              const ast::Expr& expr) {
  Binding::Next* next = next_given(state, target);
  if (!next) return;
  next->given = target.location;
  if (!is_dense(value, expr.location) || value.is_poison()) return;
  const Type expected = element_type(state);
  const Type type = type_of(value);
  NodeId node = node_of(value, expr.location);
  if (type.is_scalar() && !expected.is_scalar()) {
    node = graph_.broadcast(node, expected.shape, expr.location);
  } else if (const Fit how = fit(expected, type); how != Fit::Good) {
    if (how == Fit::Unknown) return;
    error(expr.location,
          fmt::format("the state `{}` is {}, but this value is {}", target.name.text,
                      describe(expected), describe(type)) +
              values_in({expected, type}),
          misfit_hint(expected.shape, type));
    return;
  }
  next->value = Value::of_node(node);
}

/// What the target `h[t]` or `s[l][t]` gives; null after an error, then it counts as given.
Binding::Next* Elaborator::next_given(Binding& state, const ast::Target& target) {
  const std::string& name = target.name.text;
  const bool array = state.length > 0;
  std::string shown = array ? name + "[l]" : name;
  const auto give_up = [&] {
    for (Binding::Next& next : state.next) next.given = target.location;
    return nullptr;
  };
  if (target.indices.size() != (array ? 2 : 1) || !is_time_step(*target.indices.back())) {
    std::string message = fmt::format("only `{}[t]`, this step's value, can be given", shown);
    if (target.indices.empty() && !array) {
      message = fmt::format("`{0}` is a state: its new value is `{0}[t]`", name);
    } else if (array && target.indices.size() < 2) {
      message =
          fmt::format("`{}` is an array of {} states: which one is given?", name, state.length);
    }
    Hint hint = fmt::format("write `{}[t] = …`", shown);
    if (!array) hint.edits = {{target.location, shown + "[t]"}};
    if (!array && target.indices.size() == 2 && is_time_step(*target.indices[0])) {
      hint = fmt::format(
          "its elements are given together: `{}[t] = concat(…)`, or by "
          "`where(range(H) == 0, a, b)`",
          name);
    }
    error(target.location, message, std::move(hint));
    return give_up();
  }
  size_t position = 0;
  if (array) {
    const auto index = element(*target.indices[0], name, state);
    if (!index) return give_up();
    position = static_cast<size_t>(*index);
    shown = fmt::format("{}[{}]", name, position);
  }
  Binding::Next& next = state.next[position];
  if (!next.given || (array && assumed_)) return &next;
  const std::string message = fmt::format("`{}[t]` is given twice", shown);
  if (next.given->begin == target.location.begin) {
    error(target.location, message,
          "the loop gives it at every turn: collect in another name, give it after the loop");
  } else {
    error(target.location, message, "give it once; values on the way have names of their own",
          {{*next.given, "first here"}});
  }
  return nullptr;
}

std::vector<std::string> Elaborator::names_of(Kind kind) const {
  std::vector<std::string> names;
  for (const auto& [name, binding] : frame_->names) {
    if (binding.kind == kind) names.push_back(name);
  }
  return names;
}

Value Elaborator::output(const ast::Identifier& name) {
  Binding* binding = frame_->find(name.text);
  const ast::Constant* constant = context_.constant(name.text);
  if (!binding && !constant) {
    std::vector<std::string> names = names_of(Kind::State);
    std::ranges::move(names_of(Kind::Local), std::back_inserter(names));
    return error(name.location, fmt::format("the output `{}` is never given", name.text),
                 did_you_mean(name.location, name.text, names,
                              fmt::format("the body must say what it is: `{} = …`", name.text)));
  }
  if (binding) {
    binding->used = true;
    if (binding->kind == Kind::State) {
      const NodeId next = graph_.states[binding->decl].next;
      return next == kNoNode ? Value() : Value::of_node(next);
    }
    if (binding->kind == Kind::Input) {
      return is_real(binding->value, name.location) ? binding->value : Value();
    }
    if (binding->length > 0 && binding->kind == Kind::Local) return output_array(name, *binding);
    if (binding->kind == Kind::Local) {
      return is_dense(binding->value, name.location) ? binding->value : Value();
    }
    if (binding->kind == Kind::Poison) return {};
  }
  return error(name.location,
               fmt::format("`{}` is {}; an output is a state or a value that the body gives",
                           name.text, binding ? describe(binding->kind) : "a const"),
               fmt::format("give a name of its own: `y = {}`", name.text),
               {{binding ? binding->location : constant->name.location, "declared here"}});
}

/// All elements, as those of an array of states.
Value Elaborator::output_array(const ast::Identifier& name, const Binding& array) {
  std::vector<NodeId> elements;
  for (int64_t i = 0; i < array.length; ++i) {
    const auto found = array.elements.find(i);
    const Value value = found == array.elements.end() ? Value() : found->second;
    if (found == array.elements.end() && !assumed_) {
      error(name.location, fmt::format("the output `{}` lacks its element {}", name.text, i), "",
            {{array.location, "it is given here"}});
    }
    if (value.is_poison() || !is_dense(value, name.location)) return {};
    elements.push_back(node_of(value, name.location));
    const Type first = graph_[elements[0]].type;
    const Fit how = fit(first, type_of(value));
    if (how == Fit::Unknown) return {};
    if (how == Fit::Good) continue;
    return error(name.location,
                 fmt::format("the elements of the output `{0}` differ: `{0}[0]` is {1}, `{0}[{2}]` "
                             "is {3}",
                             name.text, describe(first), i, describe(type_of(value))));
  }
  return Value::of_node(graph_.apply(Op::Stack, std::move(elements), name.location));
}

void Elaborator::warn_unused() {
  for (const auto& [name, binding] : frame_->names) {
    const bool declared = binding.kind != Kind::Local && binding.kind != Kind::Poison;
    if (binding.used || !declared) continue;
    const char* verb = binding.kind == Kind::State ? "read" : "used";
    context_.report({Severity::Warning,
                     binding.location,
                     fmt::format("`{}` is {} that is never {}", name, describe(binding.kind), verb),
                     {},
                     {}});
  }
}

}  // namespace rnnc
