#include "frontend/unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "frontend/ast.h"
#include "frontend/context.h"
#include "frontend/elaborator.h"

namespace rnnc {
namespace {

constexpr SourceLocation kNoPlace;

const ast::Identifier* name_of(const ast::Item& item) {
  if (const auto* constant = std::get_if<ast::Constant>(&item)) return &constant->name;
  if (const auto* function = std::get_if<ast::Function>(&item)) return &function->name;
  if (const auto* definition = std::get_if<ast::Definition>(&item)) return &definition->name;
  return nullptr;
}

constexpr int64_t kLargestDim = std::numeric_limits<int32_t>::max();

/// Reports names in `dims` that the definition does not have, and values that no dim has.
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
    } else if (value > kLargestDim) {
      context.error(kNoPlace,
                    fmt::format("the dim `{}` is {}, above {}", name, value, kLargestDim));
    }
  }
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

bool Unit::check(std::string_view name, const DimBindings& dims) {
  if (!is_parsed()) return false;
  Context context(modules_, files_, diagnostics_);
  if (const ast::Definition* definition = context.definition(name)) {
    check_dims(context, *definition, dims);
    if (context.errors() > 0) return false;
    rnnc::check(context, *definition, dims);
  }
  for (size_t file = 0; file + 1 < modules_.size(); ++file) {  // the prelude's comes last
    for (const ast::Item& item : modules_[file].items) {
      if (const auto* constant = std::get_if<ast::Constant>(&item)) {
        rnnc::check(context, *constant);
      } else if (const auto* function = std::get_if<ast::Function>(&item)) {
        rnnc::check(context, *function);
      } else if (const auto* definition = std::get_if<ast::Definition>(&item)) {
        rnnc::check(context, *definition);
      }
    }
  }
  return context.errors() == 0;
}

std::optional<Graph> Unit::lower(std::string_view name, const DimBindings& dims) {
  if (!is_parsed()) return std::nullopt;
  Context context(modules_, files_, diagnostics_);
  const ast::Definition* definition = context.definition(name);
  if (!definition) {
    const bool fn = context.function(name) != nullptr;
    const std::vector<std::string> names = context.names_of_definitions();
    const std::string nearest = nearest_name(name, names);
    context.error(kNoPlace,
                  fn ? fmt::format("`{}` is a fn, not a cell or network", name)
                     : fmt::format("there is no cell or network named `{}`", name),
                  !nearest.empty() ? fmt::format("did you mean `{}`?", nearest)
                  : names.empty()  ? "the file has none"
                                   : fmt::format("the file has {}", fmt::join(names, ", ")));
    return std::nullopt;
  }
  check_dims(context, *definition, dims);
  if (context.errors() > 0) return std::nullopt;
  return rnnc::lower(context, *definition, dims);
}

std::vector<std::string> Unit::definitions() const {
  std::vector<std::string> names;
  if (modules_.empty()) return names;
  for (const ast::Item& item : modules_.front().items) {
    if (const auto* definition = std::get_if<ast::Definition>(&item)) {
      names.push_back(definition->name.text);
    }
  }
  return names;
}

bool Unit::is_network(std::string_view name) const {
  if (modules_.empty()) return false;
  return std::ranges::any_of(modules_.front().items, [name](const ast::Item& item) {
    const auto* definition = std::get_if<ast::Definition>(&item);
    return definition && definition->is_network && definition->name.text == name;
  });
}

std::string Unit::print_ast(std::optional<std::string_view> name) const {
  if (!name) return modules_.empty() ? "" : ast::print(modules_.front());
  for (const ast::Module& module : modules_) {
    for (const ast::Item& item : module.items) {
      const ast::Identifier* item_name = name_of(item);
      if (item_name && item_name->text == *name) return ast::print(item);
    }
  }
  return {};
}

}  // namespace rnnc
