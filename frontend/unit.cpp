#include "frontend/unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "frontend/elaborate/context.h"
#include "frontend/elaborate/elaborator.h"
#include "frontend/item_keys.h"
#include "frontend/syntax/ast.h"
#include "frontend/syntax/utf8.h"
#include "frontend/unused_imports.h"

namespace rnnc {
namespace {

constexpr SourceLocation kNoPlace;

std::vector<const ast::Definition*> definitions_of(const ast::Module& module) {
  std::vector<const ast::Definition*> definitions;
  for (const ast::Item& item : module.items) {
    if (const auto* definition = std::get_if<ast::Definition>(&item)) {
      definitions.push_back(definition);
    }
  }
  return definitions;
}

constexpr int64_t kLargestDim = std::numeric_limits<int32_t>::max();

/// Reports values that no dim has.
void check_value(Context& context, const std::string& name, int64_t value) {
  if (value < 1) {
    context.error(kNoPlace, fmt::format("the dim `{}` is {}, but dims start at 1", name, value),
                  "scalars have no dims at all");
  } else if (value > kLargestDim) {
    context.error(kNoPlace, fmt::format("the dim `{}` is {}, above {}", name, value, kLargestDim),
                  "no array is that long");
  }
}

/// Reports names in `dims` that `owner`, which has `names`, does not have.
void check_dims(Context& context, std::string_view owner, const std::vector<std::string>& names,
                const DimBindings& dims) {
  for (const auto& [name, value] : dims) {
    const std::string shown = utf8::printable(name);
    if (std::ranges::find(names, name) != names.end()) {
      check_value(context, shown, value);
      continue;
    }
    const std::string nearest = nearest_name(name, names);
    context.error(kNoPlace, fmt::format("`{}` has no dim `{}`", owner, shown),
                  !nearest.empty() ? fmt::format("did you mean `{}`?", nearest)
                  : names.empty()  ? "it has none"
                                   : fmt::format("its dims are {}", fmt::join(names, ", ")));
  }
}

std::vector<std::string> names_of_dims(const ast::Definition& definition) {
  std::vector<std::string> names;
  for (const ast::DimParameter& dim : definition.dims) names.push_back(dim.name.text);
  return names;
}

/// Names as the parser has them, in normal form C.
DimBindings composed(const DimBindings& dims) {
  DimBindings result;
  for (const auto& [name, value] : dims) result.emplace(utf8::compose(name), value);
  return result;
}

}  // namespace

Unit::Unit(std::string file_name, std::string text, const Importer& importer) {
  files_.emplace_back(std::move(file_name), std::move(text));
  modules_ = parse_modules(files_, importer, diagnostics_);
  parsed_ = !diagnostics_.has_errors();
}

Unit::~Unit() = default;
Unit::Unit(Unit&&) noexcept = default;
Unit& Unit::operator=(Unit&&) noexcept = default;

bool Unit::check(std::string_view name, const DimBindings& dims, CheckWatch* watch) {
  if (!is_parsed()) return false;
  const DimBindings given = composed(dims);
  Context context(modules_, files_, diagnostics_, watch);
  if (const ast::Definition* definition = context.definition(utf8::compose(name))) {
    check_dims(context, definition->name.text, names_of_dims(*definition), given);
    if (context.errors() > 0) return false;
    context.give_dims(*definition, given);
    rnnc::check(context, *definition);
  } else if (name.empty()) {
    std::vector<std::string> names;
    for (const ast::Definition* own : definitions_of(modules_.front())) {
      for (std::string& dim : names_of_dims(*own)) {
        if (std::ranges::find(names, dim) == names.end()) names.push_back(std::move(dim));
      }
    }
    check_dims(context, utf8::printable(files_.front().name()), names, given);
    if (context.errors() > 0) return false;
    for (const ast::Definition* own : definitions_of(modules_.front())) {
      DimBindings its;
      for (const auto& [dim, value] : given) {
        if (own->has_dim(dim)) its[dim] = value;
      }
      if (!its.empty()) context.give_dims(*own, std::move(its));
    }
  }
  return check_items(context);
}

bool Unit::check_again(CheckMemory& memory, const std::vector<Token>& tokens,
                       const std::function<bool()>& stop) {
  if (!is_parsed()) return true;
  const Diagnostics of_parser = diagnostics_;
  CheckWatch watch;
  watch.stop = stop;
  Context context(modules_, files_, diagnostics_, &watch);
  memory.begin();
  context.remember(memory, item_ids(modules_, files_, tokens, memory));
  if (context.errors() == 0) check_items(context);
  // Near the end of the budget it matters which item pays for what several share.
  if (!watch.stopped && context.spent() > Context::kMostExpressions / 2) {
    diagnostics_ = of_parser;
    check({}, {}, &watch);
  }
  return !watch.stopped;
}

bool Unit::check_items(Context& context) {
  for (size_t file = 0; file + 1 < modules_.size(); ++file) {  // the prelude's comes last
    for (const ast::Item& item : modules_[file].items) {
      if (context.exhausted()) return false;
      if (const auto* constant = std::get_if<ast::Constant>(&item)) {
        rnnc::check(context, *constant);
      } else if (const auto* function = std::get_if<ast::Function>(&item)) {
        rnnc::check(context, *function);
      } else if (const auto* definition = std::get_if<ast::Definition>(&item)) {
        rnnc::check(context, *definition);
      }
    }
  }
  if (context.errors() > 0 || context.exhausted()) return false;
  warn_unused_imports(modules_, files_, diagnostics_);
  if (modules_.front().items.empty()) {
    diagnostics_.warning(kNoPlace, "the file defines nothing",
                         "a cell is `cell NAME[I, H](x: [I]) -> h { … }`");
  }
  return true;
}

std::optional<Graph> Unit::lower(std::string_view name, const DimBindings& dims) {
  if (!is_parsed()) return std::nullopt;
  Context context(modules_, files_, diagnostics_);
  const ast::Definition* definition = context.definition(utf8::compose(name));
  if (!definition) {
    const bool fn = context.function(name) != nullptr;
    const std::vector<std::string> names = context.names_of_definitions();
    const std::string nearest = nearest_name(name, names);
    const std::string shown = utf8::printable(name);
    context.error(kNoPlace,
                  fn ? fmt::format("`{}` is a fn, not a cell or network", shown)
                     : fmt::format("there is no cell or network named `{}`", shown),
                  !nearest.empty() ? fmt::format("did you mean `{}`?", nearest)
                  : names.empty()  ? "the file has none"
                                   : fmt::format("the file has {}", fmt::join(names, ", ")));
    return std::nullopt;
  }
  const DimBindings given = composed(dims);
  check_dims(context, definition->name.text, names_of_dims(*definition), given);
  if (context.errors() > 0) return std::nullopt;
  std::optional<Graph> graph = rnnc::lower(context, *definition, given);
  if (graph) graph->sources = std::make_shared<const std::vector<SourceFile>>(files_);
  return graph;
}

std::vector<std::string> Unit::definitions() const {
  std::vector<std::string> names;
  if (modules_.empty()) return names;
  for (const ast::Definition* own : definitions_of(modules_.front())) {
    names.push_back(own->name.text);
  }
  return names;
}

const ast::Definition* Unit::find_definition(std::string_view name) const {
  if (modules_.empty()) return nullptr;
  for (const ast::Item& item : modules_.front().items) {
    const auto* definition = std::get_if<ast::Definition>(&item);
    if (definition && definition->name.text == name) return definition;
  }
  return nullptr;
}

bool Unit::is_network(std::string_view name) const {
  const ast::Definition* definition = find_definition(name);
  return definition && definition->is_network;
}

std::vector<std::string> Unit::integer_inputs(std::string_view name) const {
  std::vector<std::string> names;
  const ast::Definition* definition = find_definition(name);
  if (!definition) return names;
  for (const ast::Input& input : definition->inputs) {
    if (input.integer) names.push_back(input.name.text);
  }
  return names;
}

std::string Unit::print_ast(std::optional<std::string_view> name) const {
  if (!name) return modules_.empty() ? "" : ast::print(modules_.front());
  for (const ast::Module& module : modules_) {
    for (const ast::Item& item : module.items) {
      const ast::Identifier* item_name = ast::name_of(item);
      if (item_name && item_name->text == *name) return ast::print(item);
    }
  }
  return {};
}

}  // namespace rnnc
