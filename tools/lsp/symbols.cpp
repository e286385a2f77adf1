// 1. The items of all files, and the built-in functions, become symbols.
// 2. Each item's body is walked with a scope of its own: declarations and all names that it gives
//    come first, as names may stand before the line that declares them; then expressions.
#include "tools/lsp/symbols.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "frontend/elaborate/builtins.h"

namespace rnnc::lsp {
namespace {

using Kind = Symbol::Kind;

std::tuple<uint32_t, uint32_t> order_of(const Occurrence& occurrence) {
  return {occurrence.location.file, occurrence.location.begin};
}

class Indexer {
 public:
  explicit Indexer(const Unit& unit) : unit_(unit) {}

  SymbolIndex run() {
    add_items();
    const std::vector<ast::Module>& modules = unit_.modules();
    for (uint32_t file = 0; file < modules.size(); ++file) {
      seen_ = seen_files(unit_, file);
      for (const ast::Item& item : modules[file].items) walk_item(item);
    }
    std::ranges::stable_sort(index_.occurrences, {}, order_of);
    const auto repeated = std::ranges::unique(index_.occurrences, {}, order_of);
    index_.occurrences.erase(repeated.begin(), repeated.end());
    return std::move(index_);
  }

 private:
  void add_items() {
    for (const ast::Module& module : unit_.modules()) {
      auto& items = items_.emplace_back();
      for (const ast::Item& item : module.items) {
        const ast::Identifier* name = ast::name_of(item);
        if (!name) continue;
        const auto* definition = std::get_if<ast::Definition>(&item);
        const Kind kind = std::holds_alternative<ast::Function>(item)   ? Kind::Fn
                          : std::holds_alternative<ast::Constant>(item) ? Kind::Const
                          : definition && definition->is_network        ? Kind::Network
                                                                        : Kind::Cell;
        items.emplace(name->text, add({kind, name->text, name->location, &item}));
        occur(name->location, items.at(name->text), true);
        if (!definition) continue;
        for (const ast::DimParameter& dim : definition->dims) {
          auto& dims = dims_[definition];
          dims.emplace(dim.name.text, add({Kind::Dim, dim.name.text, dim.name.location, &item}));
          occur(dim.name.location, dims.at(dim.name.text), true);
        }
      }
    }
    for (const Builtin& builtin : builtins()) {
      builtins_.emplace(builtin.name, add({Kind::Builtin, std::string(builtin.name), {}, nullptr}));
    }
  }

  uint32_t add(Symbol symbol) {
    index_.symbols.push_back(std::move(symbol));
    return static_cast<uint32_t>(index_.symbols.size() - 1);
  }
  void occur(SourceLocation place, uint32_t symbol, bool gives = false) {
    index_.occurrences.push_back({place, symbol, gives});
  }

  void walk_item(const ast::Item& item) {
    item_ = &item;
    scope_.clear();
    if (const auto* constant = std::get_if<ast::Constant>(&item)) {
      walk(constant->value);
    } else if (const auto* function = std::get_if<ast::Function>(&item)) {
      for (const ast::Identifier& name : function->parameters) declare(Kind::Parameter, name);
      walk(function->body);
    } else if (const auto* definition = std::get_if<ast::Definition>(&item)) {
      walk(*definition);
    }
  }

  void walk(const ast::Definition& definition) {
    for (const ast::DimParameter& dim : definition.dims) {
      scope_.emplace(dim.name.text, dims_[&definition].at(dim.name.text));
      walk(dim.default_value);
    }
    for (const ast::Input& input : definition.inputs) {
      index_.symbols[declare(Kind::Input, input.name)].input = &input;
      walk(input.shape);
    }
    for (const ast::Statement& statement : definition.body) {
      const auto* declaration = std::get_if<ast::Declaration>(&statement.node);
      if (!declaration) continue;
      for (const ast::Declaration::Entry& entry : declaration->entries) {
        const uint32_t symbol =
            declare(declaration->is_state ? Kind::State : Kind::Param, entry.name);
        index_.symbols[symbol].declaration = declaration;
      }
    }
    declare_locals(definition.body);
    walk(definition.body);
    for (const ast::Identifier& output : definition.outputs) name(output.text, output.location);
  }

  /// Of a name that is there already, that one.
  uint32_t declare(Kind kind, const ast::Identifier& name) {
    const auto found = scope_.find(name.text);
    const uint32_t symbol =
        found != scope_.end() ? found->second : add({kind, name.text, name.location, item_});
    scope_.emplace(name.text, symbol);
    occur(name.location, symbol, true);
    return symbol;
  }

  void declare_locals(const std::vector<ast::Statement>& body) {
    for (const ast::Statement& statement : body) {
      if (const auto* assignment = std::get_if<ast::Assignment>(&statement.node)) {
        for (const ast::Target& target : assignment->targets) declare(Kind::Local, target.name);
      } else if (const auto* loop = std::get_if<ast::Loop>(&statement.node)) {
        declare_locals(loop->body);
      }
    }
  }

  void walk(const std::vector<ast::Statement>& body) {
    for (const ast::Statement& statement : body) {
      if (const auto* declaration = std::get_if<ast::Declaration>(&statement.node)) {
        for (const ast::Declaration::Entry& entry : declaration->entries) walk(entry.length);
        walk(declaration->shape);
        walk(declaration->blocks);
        walk(declaration->initial);
      } else if (const auto* assignment = std::get_if<ast::Assignment>(&statement.node)) {
        for (const ast::Target& target : assignment->targets) walk(target.indices);
        walk(assignment->value);
      } else {
        walk(std::get<ast::Loop>(statement.node));
      }
    }
  }

  void walk(const ast::Loop& loop) {
    walk(loop.begin);
    walk(loop.end);
    const auto outer = scope_;
    scope_.erase(loop.index.text);
    declare(Kind::LoopIndex, loop.index);
    walk(loop.body);
    scope_ = outer;
  }

  void walk(const std::vector<ast::ExprPtr>& list) {
    for (const ast::ExprPtr& expr : list) walk(expr);
  }

  void walk(const ast::ExprPtr& expr) {
    if (!expr) return;
    if (expr->kind == ast::Expr::Kind::Name) name(expr->text, expr->location);
    if (expr->kind == ast::Expr::Kind::Call) callee(*expr);
    walk(expr->children);
    walk(expr->layer_index);
  }

  void callee(const ast::Expr& call) {
    const uint32_t* symbol = item_named(call.text);
    const auto builtin = builtins_.find(call.text);
    if (!symbol && builtin != builtins_.end()) symbol = &builtin->second;
    if (symbol) occur(call.text_location, *symbol);
    const ast::Item* item = symbol ? index_.symbols[*symbol].item : nullptr;
    const auto* definition = item ? std::get_if<ast::Definition>(item) : nullptr;
    for (const ast::DimArgument& dim : call.dims) {
      walk(dim.value);
      if (!definition) continue;
      const auto found = dims_[definition].find(dim.name.text);
      if (found != dims_[definition].end()) occur(dim.name.location, found->second);
    }
  }

  void name(const std::string& text, SourceLocation place) {
    if (const auto found = scope_.find(text); found != scope_.end()) {
      occur(place, found->second);
    } else if (const uint32_t* symbol = item_named(text)) {
      occur(place, *symbol);
    }
  }

  const uint32_t* item_named(const std::string& text) const {
    for (const uint32_t file : seen_) {
      const auto found = items_[file].find(text);
      if (found != items_[file].end()) return &found->second;
    }
    return nullptr;
  }

  const Unit& unit_;
  SymbolIndex index_;
  std::vector<std::map<std::string, uint32_t>> items_;  // by file
  std::map<const ast::Definition*, std::map<std::string, uint32_t>> dims_;
  std::map<std::string, uint32_t, std::less<>> builtins_;
  std::map<std::string, uint32_t> scope_;
  const ast::Item* item_ = nullptr;
  std::vector<uint32_t> seen_;
};

std::string join(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string signature(const ast::Definition& definition) {
  std::vector<std::string> dims;
  for (const ast::DimParameter& dim : definition.dims) {
    dims.push_back(dim.name.text);
    if (dim.default_value) dims.back() += " = " + ast::print(*dim.default_value);
  }
  std::vector<std::string> inputs;
  for (const ast::Input& input : definition.inputs) inputs.push_back(ast::print(input));
  std::vector<std::string> outputs;
  for (const ast::Identifier& output : definition.outputs) outputs.push_back(output.text);
  return fmt::format("{} {}{}({}) -> {}", definition.kind(), definition.name.text,
                     dims.empty() ? "" : "[" + join(dims) + "]", join(inputs),
                     outputs.size() == 1 ? outputs[0] : "(" + join(outputs) + ")");
}

std::string signature(const Symbol& symbol, const ast::Declaration& declaration) {
  std::string text = fmt::format("{} {}", declaration.is_state ? "state" : "param", symbol.name);
  for (const ast::Declaration::Entry& entry : declaration.entries) {
    if (entry.name.text == symbol.name && entry.length) {
      text += "[" + ast::print(*entry.length) + "]";
    }
  }
  std::vector<std::string> shape;
  for (const ast::ExprPtr& dim : declaration.shape) shape.push_back(ast::print(*dim));
  text += ": [" + join(shape) + "]";
  if (declaration.blocks) text += " blocks " + ast::print(*declaration.blocks);
  if (declaration.initial) text += " = " + ast::print(*declaration.initial);
  return text;
}

template <typename Item>
std::string_view doc_of(const Item& item) {
  return item.doc;
}
std::string_view doc_of(const ast::Import& /*item*/) {
  return "";
}

}  // namespace

std::string_view describe(Kind kind) {
  switch (kind) {
    case Kind::Cell:
      return "a cell";
    case Kind::Network:
      return "a network";
    case Kind::Fn:
      return "a fn";
    case Kind::Const:
      return "a const";
    case Kind::Dim:
      return "a dim";
    case Kind::Input:
      return "an input";
    case Kind::Param:
      return "a param";
    case Kind::State:
      return "a state";
    case Kind::Local:
      return "a local value";
    case Kind::LoopIndex:
      return "a loop's index";
    case Kind::Parameter:
      return "an argument";
    case Kind::Builtin:
      return "a built-in function";
  }
  return "";
}

bool is_item(Kind kind) {
  return kind == Kind::Cell || kind == Kind::Network || kind == Kind::Fn || kind == Kind::Const;
}

std::string signature(const Symbol& symbol, const std::vector<SourceFile>& files) {
  if (symbol.kind == Kind::Builtin) {
    const Builtin* builtin = find_builtin(symbol.name);
    std::string text(builtin->usage);  // may be "min(v)` or `min(a, b)", for errors
    std::erase(text, '`');
    return text;
  }
  if (symbol.declaration) return signature(symbol, *symbol.declaration);
  if (symbol.input) return ast::print(*symbol.input);
  if (!is_item(symbol.kind)) return symbol.name;
  if (const auto* definition = std::get_if<ast::Definition>(symbol.item)) {
    return signature(*definition);
  }
  if (const auto* function = std::get_if<ast::Function>(symbol.item)) {
    std::vector<std::string> parameters;
    for (const ast::Identifier& name : function->parameters) parameters.push_back(name.text);
    return fmt::format("fn {}({})", symbol.name, join(parameters));
  }
  const auto& constant = std::get<ast::Constant>(*symbol.item);
  if (!constant.value) return "const " + symbol.name;
  const SourceLocation place = constant.value->location;
  return fmt::format("const {} = {}", symbol.name, files[place.file].slice(place));
}

std::string_view doc(const Symbol& symbol) {
  if (!is_item(symbol.kind)) return "";
  std::string_view text =
      std::visit([](const auto& item) -> std::string_view { return doc_of(item); }, *symbol.item);
  while (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

std::vector<uint32_t> seen_files(const Unit& unit, uint32_t file) {
  const std::vector<ast::Module>& modules = unit.modules();
  std::vector<uint32_t> seen = {file};
  for (size_t at = 0; at < seen.size(); ++at) {
    for (const ast::Item& item : modules[seen[at]].items) {
      const auto* import = std::get_if<ast::Import>(&item);
      if (import && std::ranges::find(seen, import->file) == seen.end()) {
        seen.push_back(import->file);
      }
    }
  }
  const auto prelude = static_cast<uint32_t>(modules.size() - 1);
  if (file != prelude) seen.push_back(prelude);
  return seen;
}

const Occurrence* SymbolIndex::at(uint32_t file, uint32_t offset) const {
  const auto key = [](const Occurrence& occurrence) { return order_of(occurrence); };
  auto after = std::ranges::upper_bound(occurrences, std::tuple(file, offset), {}, key);
  if (after == occurrences.begin()) return nullptr;
  const Occurrence& found = *std::prev(after);
  return found.location.file == file && offset <= found.location.end ? &found : nullptr;
}

std::vector<uint32_t> SymbolIndex::visible(const Unit& unit, const ast::Item* item) const {
  const std::vector<uint32_t> seen = seen_files(unit, 0);
  std::vector<uint32_t> result;
  for (uint32_t id = 0; id < symbols.size(); ++id) {
    const Symbol& symbol = symbols[id];
    const bool global =
        is_item(symbol.kind) && std::ranges::find(seen, symbol.location.file) != seen.end();
    const bool own = item && symbol.item == item && !is_item(symbol.kind);
    if (global || own || symbol.kind == Kind::Builtin) result.push_back(id);
  }
  return result;
}

SymbolIndex index_symbols(const Unit& unit) {
  return Indexer(unit).run();
}

}  // namespace rnnc::lsp
