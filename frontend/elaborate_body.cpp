// Bodies: declarations first, since their order does not matter, then statements from top to
// bottom, then outputs.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "frontend/elaborator.h"

namespace rnnc {

using ast::Declaration;
using Kind = Binding::Kind;

namespace {

void collect_given(const std::vector<ast::Statement>& list, std::vector<Frame::Given>& given) {
  for (const ast::Statement& statement : list) {
    if (const auto* assignment = std::get_if<ast::Assignment>(&statement.node)) {
      for (const ast::Target& target : assignment->targets) {
        given.push_back({target.name.text, target.location, statement.location});
      }
    } else if (const auto* loop = std::get_if<ast::Loop>(&statement.node)) {
      collect_given(loop->body, given);
    }
  }
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
        error(expr.location, fmt::format("the default of `{}` must be a whole number, not {}",
                                         parameter.name.text, quote(expr)));
      } else if (number && *number < 1) {
        error(expr.location, fmt::format("the default of `{}` is {}, but dims start at 1",
                                         parameter.name.text, *number));
      }
    }
    Binding binding;
    binding.kind = Kind::Dim;
    binding.dim = Dim::symbol(parameter.name.text);
    if (!bind(parameter.name, std::move(binding))) continue;
    graph_.dims.push_back({parameter.name.text, number});
    if (number) defaults_[parameter.name.text] = *number;
  }
}

void Elaborator::top_level_inputs(const ast::Definition& definition) {
  for (const ast::Input& input : definition.inputs) {
    const std::optional<Shape> type = shape(input.shape);
    Binding binding;
    binding.kind = type ? Kind::Input : Kind::Poison;
    Binding* bound = bind(input.name, std::move(binding));
    if (!bound || !type) continue;
    graph_.inputs.push_back({input.name.text, {*type}, input.name.location});
    const auto decl = static_cast<uint32_t>(graph_.inputs.size() - 1);
    bound->value = Value::of_node(graph_.input(decl, 0, input.name.location));
  }
}

/// Elaborates the body with dims and inputs bound; gives the outputs' values.
std::vector<Value> Elaborator::body(const ast::Definition& definition) {
  collect_given(definition.body, frame_->given);
  for (const ast::Statement& statement : definition.body) {
    if (const auto* declaration = std::get_if<Declaration>(&statement.node)) declare(*declaration);
  }
  for (const ast::Statement& statement : definition.body) {
    if (const auto* declaration = std::get_if<Declaration>(&statement.node)) {
      if (declaration->is_state) initial_value(*declaration);
    }
  }
  statements(definition.body, /*in_loop=*/false);
  for (auto& [name, binding] : frame_->names) {
    if (binding.kind != Kind::State || binding.given || context_.exhausted()) continue;
    error(binding.location, fmt::format("`{}[t]` is never given", name),
          fmt::format("the body must say what it becomes: `{}[t] = …`", name));
  }
  std::vector<Value> values;
  std::set<std::string_view> seen;
  for (const ast::Identifier& name : definition.outputs) {
    if (!seen.insert(name.text).second) {
      error(name.location, fmt::format("the output `{}` is there twice", name.text));
    }
    values.push_back(output(name));
  }
  return values;
}

void Elaborator::declare(const Declaration& declaration) {
  const std::optional<Shape> type = shape(declaration.shape);
  const ast::Identifier& first = declaration.entries.front().name;
  const bool wrong_place = declaration.is_state && frame_->kind == Frame::Kind::Network;
  if (wrong_place) {
    error(first.location, "a network has no state of its own",
          "put the state into a cell and call that");
  }
  if (declaration.blocks) {
    error(declaration.blocks->location, "`blocks` is not compiled yet",
          "without it the param is dense");
  }
  if (declaration.initial && !declaration.is_state) {
    error(declaration.initial->location, "a param has no value of its own: it is an argument",
          "a fixed number is a `const`");
  }
  for (const Declaration::Entry& entry : declaration.entries) {
    declare_entry(declaration, entry, wrong_place ? std::nullopt : type);
  }
}

void Elaborator::declare_entry(const Declaration& declaration, const Declaration::Entry& entry,
                               const std::optional<Shape>& shape) {
  const ast::Identifier& name = entry.name;
  const bool allowed = context_.enter(name.location);  // calls in a loop declare again and again
  context_.leave();
  if (!allowed) failed_ = true;
  if (entry.length) {
    dim(*entry.length);
    error(
        name.location,
        fmt::format("arrays of {}s are not compiled yet", declaration.is_state ? "state" : "param"),
        fmt::format("declare one per use: `{0}_0, {0}_1`", name.text));
  }
  Binding binding;
  const bool usable = shape && !entry.length && allowed;
  if (usable) binding.kind = declaration.is_state ? Kind::State : Kind::Param;
  Binding* bound = bind(name, std::move(binding));
  if (!bound || !usable) return;
  const std::string full_name = frame_->prefix + name.text;
  if (declaration.is_state) {
    bound->decl = static_cast<uint32_t>(graph_.states.size());
    graph_.states.push_back({full_name, {*shape}, kNoNode, kNoNode, name.location});
    bound->value = Value::of_node(graph_.state(bound->decl, 1, name.location));
  } else {
    graph_.params.push_back({full_name, {*shape}, name.location});
    const auto decl = static_cast<uint32_t>(graph_.params.size() - 1);
    bound->value = Value::of_node(graph_.param(decl, name.location));
  }
}

void Elaborator::initial_value(const Declaration& declaration) {
  Value value = Value::of_number(0);
  if (declaration.initial) {
    frame_->in_initial_value = true;
    value = expression(*declaration.initial);
    frame_->in_initial_value = false;
  }
  if (value.is_poison()) return;
  for (const Declaration::Entry& entry : declaration.entries) {
    const Binding* state = frame_->find(entry.name.text);
    if (!state || state->kind != Kind::State) continue;
    StateDecl& decl = graph_.states[state->decl];
    const Type type = type_of(value);
    if (type.is_scalar() || type == decl.type) {
      decl.init = node_of(value, entry.name.location);
    } else {
      error(declaration.initial->location,
            fmt::format("the state `{}` is {}, but its initial value is {}", entry.name.text,
                        describe(decl.type), describe(type)) +
                values_in({decl.type, type}));
    }
  }
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
  const auto begin = integer(*loop.begin, "the loop");
  const auto end = integer(*loop.end, "the loop");
  Binding* index = bind(loop.index, {});
  if (!begin || !end) {
    statements(loop.body, /*in_loop=*/true);  // once, for the errors inside
  } else {
    for (int64_t i = *begin; i < *end; ++i) {
      const bool allowed = context_.enter(loop.index.location);
      context_.leave();
      if (!allowed) break;
      if (index) {
        index->kind = Kind::LoopIndex;
        index->dim = Dim(i);
      }
      statements(loop.body, /*in_loop=*/true);
    }
  }
  if (index) frame_->names.erase(loop.index.text);
}

void Elaborator::assignment(const ast::Assignment& assignment) {
  const ast::Expr& value = *assignment.value;
  const size_t count = assignment.targets.size();
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
                          values.size(), values.size() == 1 ? "" : "s", count));
      }
    } else if (!expression(value).is_poison()) {
      error(value.location,
            fmt::format("{} gives one value, but {} names are on the left", quote(value), count),
            "only the call of a cell or network gives several");
    }
    values.resize(count);
  }
  for (size_t i = 0; i < count; ++i) assign(assignment.targets[i], values[i], value.location);
}

void Elaborator::assign(const ast::Target& target, Value value, SourceLocation value_location) {
  const ast::Identifier& name = target.name;
  Binding* binding = frame_->find(name.text);
  if (binding && binding->kind == Kind::State) {
    return assign_state(*binding, target, value, value_location);
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
  if (!target.indices.empty()) {
    if (binding && binding->kind == Kind::Poison) return;
    error(target.location,
          fmt::format("`{}` is not a state, so it is given without brackets", name.text),
          fmt::format("write `{0} = …`, or declare `state {0}: […]`", name.text));
  }
  Binding local;
  local.kind = Kind::Local;
  local.location = name.location;
  local.value = value;
  frame_->names[name.text] = std::move(local);
}

void Elaborator::assign_state(Binding& state, const ast::Target& target, Value value,
                              SourceLocation value_location) {
  const std::string& name = target.name.text;
  const bool this_step = target.indices.size() == 1 &&
                         target.indices[0]->kind == ast::Expr::Kind::Name &&
                         target.indices[0]->text == "t";
  if (!this_step) {
    error(target.location,
          target.indices.empty()
              ? fmt::format("`{0}` is a state: its new value is `{0}[t]`", name)
              : fmt::format("only `{}[t]`, this step's value, can be given", name),
          fmt::format("write `{}[t] = …`", name));
  } else if (state.given) {
    const std::string message = fmt::format("`{}[t]` is given twice", name);
    if (state.given->begin == target.location.begin) {
      error(target.location, message, "the loop gives it at every turn");
    } else {
      error(target.location, message, "", {{*state.given, "first here"}});
    }
    return;
  }
  state.given = target.location;
  if (value.is_poison()) return;
  StateDecl& decl = graph_.states[state.decl];
  const Type type = type_of(value);
  if (type != decl.type) {
    error(value_location, fmt::format("the state `{}` is {}, but this value is {}", name,
                                      describe(decl.type), describe(type)) +
                              values_in({decl.type, type}));
    return;
  }
  decl.next = node_of(value, value_location);
  state.next = Value::of_node(decl.next);
}

Value Elaborator::output(const ast::Identifier& name) {
  Binding* binding = frame_->find(name.text);
  const ast::Constant* constant = context_.constant(name.text);
  if (!binding && !constant) {
    std::vector<std::string> names;
    for (const auto& [known, other] : frame_->names) {
      if (other.kind == Kind::State || other.kind == Kind::Local) names.push_back(known);
    }
    return error(name.location, fmt::format("the output `{}` is never given", name.text),
                 did_you_mean(name.text, names,
                              fmt::format("the body must say what it is: `{} = …`", name.text)));
  }
  if (binding) {
    binding->used = true;
    if (binding->kind == Kind::State) return binding->next;
    if (binding->kind == Kind::Local || binding->kind == Kind::Input) return binding->value;
    if (binding->kind == Kind::Poison) return {};
  }
  return error(name.location,
               fmt::format("`{}` is {}; an output is a state or a value that the body gives",
                           name.text, binding ? describe(binding->kind) : "a const"),
               "", {{binding ? binding->location : constant->name.location, "declared here"}});
}

void Elaborator::warn_unused() {
  for (const auto& [name, binding] : frame_->names) {
    const bool declared = binding.kind != Kind::Local && binding.kind != Kind::Poison;
    if (binding.used || !declared) continue;
    const char* verb = binding.kind == Kind::State ? "read" : "used";
    context_.report({Severity::Warning,
                     binding.location,
                     fmt::format("`{}` is {} that is never {}", name, describe(binding.kind), verb),
                     "",
                     {}});
  }
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
