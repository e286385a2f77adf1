#include "frontend/unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frontend/ast.h"
#include "frontend/context.h"
#include "frontend/elaborator.h"
#include "frontend/parser.h"

namespace rnnc {
namespace {

constexpr SourceLocation kNoPlace;

const ast::Identifier* name_of(const ast::Item& item) {
  if (const auto* constant = std::get_if<ast::Constant>(&item)) return &constant->name;
  if (const auto* function = std::get_if<ast::Function>(&item)) return &function->name;
  if (const auto* definition = std::get_if<ast::Definition>(&item)) return &definition->name;
  return nullptr;
}

/// Reports names in `dims` that the definition does not have, and values below 1.
void check_dims(Context& context, const ast::Definition& definition, const DimBindings& dims) {
  std::vector<std::string> names;
  for (const ast::DimParameter& dim : definition.dims) names.push_back(dim.name.text);
  for (const auto& [name, value] : dims) {
    if (std::ranges::find(names, name) == names.end()) {
      const std::string nearest = nearest_name(name, names);
      context.error(kNoPlace, fmt::format("`{}` has no dim `{}`", definition.name.text, name),
                    !nearest.empty() ? fmt::format("did you mean `{}`?", nearest)
                    : names.empty()  ? "it has none"
                                     : fmt::format("its dims are {}", fmt::join(names, ", ")));
    } else if (value < 1) {
      context.error(kNoPlace, fmt::format("the dim `{}` is {}, but dims start at 1", name, value));
    }
  }
}

}  // namespace

Unit::Unit(std::string file_name, std::string text) : module_(std::make_unique<ast::Module>()) {
  files_.emplace_back(std::move(file_name), std::move(text));
  *module_ = parse(files_.front(), 0, diagnostics_);
  parsed_ = !diagnostics_.has_errors();
}

Unit::~Unit() = default;
Unit::Unit(Unit&&) noexcept = default;
Unit& Unit::operator=(Unit&&) noexcept = default;

bool Unit::check() {
  if (!parsed_) return false;
  Context context(*module_, files_, diagnostics_);
  for (const ast::Item& item : module_->items) {
    if (const auto* constant = std::get_if<ast::Constant>(&item)) {
      rnnc::check(context, *constant);
    } else if (const auto* function = std::get_if<ast::Function>(&item)) {
      rnnc::check(context, *function);
    } else if (const auto* definition = std::get_if<ast::Definition>(&item)) {
      rnnc::check(context, *definition);
    }
  }
  return context.errors() == 0;
}

std::optional<Graph> Unit::lower(std::string_view name, const DimBindings& dims) {
  if (!parsed_) return std::nullopt;
  Context context(*module_, files_, diagnostics_);
  const ast::Definition* definition = context.definition(name);
  if (!definition) {
    const bool fn = context.function(name) != nullptr;
    const std::string nearest = nearest_name(name, definitions());
    context.error(kNoPlace,
                  fn ? fmt::format("`{}` is a fn, not a cell or network", name)
                     : fmt::format("there is no cell or network named `{}`", name),
                  !nearest.empty() ? fmt::format("did you mean `{}`?", nearest)
                  : definitions().empty()
                      ? "the file has none"
                      : fmt::format("the file has {}", fmt::join(definitions(), ", ")));
    return std::nullopt;
  }
  check_dims(context, *definition, dims);
  if (context.errors() > 0) return std::nullopt;
  return rnnc::lower(context, *definition, dims);
}

std::vector<std::string> Unit::definitions() const {
  std::vector<std::string> names;
  for (const ast::Item& item : module_->items) {
    if (const auto* definition = std::get_if<ast::Definition>(&item)) {
      names.push_back(definition->name.text);
    }
  }
  return names;
}

std::string Unit::print_ast(std::optional<std::string_view> name) const {
  if (!name) return ast::print(*module_);
  for (const ast::Item& item : module_->items) {
    const ast::Identifier* item_name = name_of(item);
    if (item_name && item_name->text == *name) return ast::print(item);
  }
  return {};
}

}  // namespace rnnc
