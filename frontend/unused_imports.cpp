#include "frontend/unused_imports.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "frontend/syntax/utf8.h"

namespace rnnc {
namespace {

using Names = std::set<std::string_view>;

void collect(const ast::Expr* expr, Names& names);

template <typename List>
void collect_all(const List& list, Names& names) {
  for (const ast::ExprPtr& expr : list) collect(expr.get(), names);
}

/// All names in an expression; which of them are bound elsewhere does not matter here.
void collect(const ast::Expr* expr, Names& names) {
  if (!expr) return;
  if (expr->kind == ast::Expr::Kind::Name || expr->kind == ast::Expr::Kind::Call) {
    names.insert(expr->text);
  }
  collect_all(expr->children, names);
  for (const ast::DimArgument& dim : expr->dims) collect(dim.value.get(), names);
}

void collect(const std::vector<ast::Statement>& body, Names& names) {
  for (const ast::Statement& statement : body) {
    if (const auto* declaration = std::get_if<ast::Declaration>(&statement.node)) {
      for (const auto& entry : declaration->entries) collect(entry.length.get(), names);
      collect_all(declaration->shape, names);
      collect(declaration->blocks.get(), names);
      collect(declaration->initial.get(), names);
    } else if (const auto* assignment = std::get_if<ast::Assignment>(&statement.node)) {
      for (const ast::Target& target : assignment->targets) collect_all(target.indices, names);
      collect(assignment->value.get(), names);
    } else {
      const auto& loop = std::get<ast::Loop>(statement.node);
      collect(loop.begin.get(), names);
      collect(loop.end.get(), names);
      collect(loop.body, names);
    }
  }
}

void collect(const ast::Item& item, Names& names) {
  if (const auto* constant = std::get_if<ast::Constant>(&item)) {
    collect(constant->value.get(), names);
  } else if (const auto* function = std::get_if<ast::Function>(&item)) {
    collect(function->body.get(), names);
  } else if (const auto* definition = std::get_if<ast::Definition>(&item)) {
    for (const ast::DimParameter& dim : definition->dims) collect(dim.default_value.get(), names);
    for (const ast::Input& input : definition->inputs) collect_all(input.shape, names);
    for (const ast::Identifier& output : definition->outputs) names.insert(output.text);
    collect(definition->body, names);
  }
}

/// Whether `file`, or what it imports, defines one of `names`.
bool defines(const std::vector<ast::Module>& modules, uint32_t file, const Names& names,
             std::set<uint32_t>& seen) {
  if (!seen.insert(file).second) return false;
  return std::ranges::any_of(modules[file].items, [&](const ast::Item& item) {
    if (const auto* import = std::get_if<ast::Import>(&item)) {
      return defines(modules, import->file, names, seen);
    }
    return names.contains(ast::name_of(item)->text);
  });
}

}  // namespace

void warn_unused_imports(const std::vector<ast::Module>& modules,
                         const std::vector<SourceFile>& files, Diagnostics& diagnostics) {
  const std::vector<ast::Item>& items = modules.front().items;
  const auto is_import = [](const ast::Item& item) { return !ast::name_of(item); };
  if (std::ranges::all_of(items, is_import) || std::ranges::none_of(items, is_import)) return;
  Names names;
  for (const ast::Item& item : items) collect(item, names);
  for (const ast::Item& item : items) {
    const auto* import = std::get_if<ast::Import>(&item);
    std::set<uint32_t> seen;
    if (!import || defines(modules, import->file, names, seen)) continue;
    diagnostics.warning(
        import->location,
        fmt::format("nothing of `{}` is used here", utf8::printable(files[import->file].name())),
        "what it defines is called by its name: `LSTM[H = 256](x)`");
  }
}

}  // namespace rnnc
