#include "tools/lsp/document.h"

#include <algorithm>
#include <set>
#include <utility>

#include "frontend/elaborate/builtins.h"

namespace rnnc::lsp {
namespace {

bool opens(TokenKind kind) {
  return kind == TokenKind::LeftParen || kind == TokenKind::LeftBracket;
}
bool closes(TokenKind kind) {
  return kind == TokenKind::RightParen || kind == TokenKind::RightBracket;
}

const Symbol* symbol_at(const Analysis& analysis, const Token& token) {
  const Occurrence* found = analysis.index.at(0, token.location.begin);
  return found ? &analysis.index.symbols[found->symbol] : nullptr;
}

/// The name in front of the bracket tokens[at], before dims in brackets if there are any.
const Symbol* callee_before(const Analysis& analysis, size_t at) {
  const std::vector<Token>& tokens = analysis.tokens;
  if (at > 0 && tokens[at - 1].kind == TokenKind::RightBracket) {
    int depth = 0;
    do {
      --at;
      depth += closes(tokens[at].kind) ? 1 : opens(tokens[at].kind) ? -1 : 0;
    } while (at > 0 && depth > 0);
  }
  if (at == 0 || tokens[at - 1].kind != TokenKind::Name) return nullptr;
  const Token& name = tokens[at - 1];
  // A call that is still being typed may not be in the tree.
  if (const Symbol* symbol = symbol_at(analysis, name)) {
    const bool callable = (is_item(symbol->kind) && symbol->kind != Symbol::Kind::Const) ||
                          symbol->kind == Symbol::Kind::Builtin;
    const bool declared = symbol->location.begin == name.location.begin &&
                          symbol->location.file == 0 && symbol->kind != Symbol::Kind::Builtin;
    return callable && !declared ? symbol : nullptr;
  }
  for (const uint32_t id : analysis.index.visible(analysis.unit, nullptr)) {
    const Symbol& symbol = analysis.index.symbols[id];
    if (symbol.name == name.text && symbol.kind != Symbol::Kind::Const) return &symbol;
  }
  return nullptr;
}

}  // namespace

void Document::replace_all(std::string text) {
  text_ = Text(std::move(text));
  forget();
}

void Document::replace(Position from, Position to, std::string_view text) {
  const uint32_t begin = text_.offset(std::min(from, to));
  text_.replace(begin, text_.offset(std::max(from, to)), text);
  forget();
}

void Document::parse() {
  analysis_ =
      std::make_unique<Analysis>(Analysis{parse_unit(path_, text_.string(), shadow_), {}, {}, {}});
  analysis_->index = index_symbols(analysis_->unit);
  Diagnostics ignored;  // they are those of the unit
  analysis_->tokens = lex(analysis_->unit.files().front(), 0, ignored);
}

const Analysis& Document::parsed() {
  if (!analysis_) parse();
  return *analysis_;
}

const Analysis& Document::diagnosed(const std::function<bool()>& stop) {
  // A check that was stopped has told a part of what it finds, so the next begins anew.
  if (!analysis_ || analysis_->stopped) parse();
  if (!analysis_->diagnosed) {
    analysis_->diagnosed = analysis_->unit.check_again(memory_, analysis_->tokens, stop);
    analysis_->stopped = !analysis_->diagnosed;
  }
  return *analysis_;
}

const Analysis& Document::checked() {
  if (!analysis_ || (!analysis_->checked && (analysis_->stopped || analysis_->diagnosed))) parse();
  if (!analysis_->checked) {
    analysis_->unit.check({}, {}, &analysis_->watch);
    analysis_->diagnosed = analysis_->checked = true;
  }
  return *analysis_;
}

const ast::Item* item_at(const Analysis& analysis, uint32_t offset) {
  const ast::Item* found = nullptr;
  for (const Blocks::Item& item : blocks_of(analysis).items) {
    if (item.range.begin <= offset) found = item.item;
  }
  return found;
}

Blocks blocks_of(const Analysis& analysis) {
  Blocks blocks;
  std::vector<uint32_t> open;
  const auto& items = analysis.unit.modules().front().items;
  const std::vector<Token>& tokens = analysis.tokens;
  for (const ast::Item& item : items) {
    const ast::Identifier* name = ast::name_of(item);
    if (!name) continue;
    const auto at = std::ranges::lower_bound(tokens, name->location.begin, {},
                                             [](const Token& t) { return t.location.begin; });
    const uint32_t begin = at == tokens.begin() ? 0 : std::prev(at)->location.begin;
    if (!blocks.items.empty()) blocks.items.back().range.end = begin;
    blocks.items.push_back({&item, {begin, tokens.empty() ? begin : tokens.back().location.begin}});
  }
  for (const Token& token : tokens) {
    if (token.kind == TokenKind::LeftBrace) open.push_back(token.location.begin);
    if (token.kind == TokenKind::RightBrace && !open.empty()) {
      blocks.braces.push_back({open.back(), token.location.end});
      open.pop_back();
    }
  }
  // An item ends with its last token.
  for (Blocks::Item& item : blocks.items) {
    auto after = std::ranges::lower_bound(tokens, item.range.end, {},
                                          [](const Token& t) { return t.location.begin; });
    while (after != tokens.begin() && std::prev(after)->kind == TokenKind::End) --after;
    if (after == tokens.begin()) continue;
    item.range.end = std::max(item.range.begin, std::prev(after)->location.end);
  }
  return blocks;
}

const Type* type_of(const Analysis& analysis, const Symbol& symbol) {
  const CheckWatch::Places& types = analysis.watch.types;
  const auto at = [&](SourceLocation place) -> const Type* {
    const auto found = types.find({place.file, place.begin, place.end});
    return found == types.end() ? nullptr : &found->second;
  };
  if (const Type* type = at(symbol.location)) return type;
  const auto index = static_cast<uint32_t>(&symbol - analysis.index.symbols.data());
  for (const Occurrence& occurrence : occurrences_of(analysis, index)) {
    const Type* type = occurrence.gives ? at(occurrence.location) : nullptr;
    if (type != nullptr) return type;
  }
  return nullptr;
}

std::optional<CallAt> call_at(const Analysis& analysis, uint32_t offset) {
  const std::vector<Token>& tokens = analysis.tokens;
  const auto after =
      std::ranges::lower_bound(tokens, offset, {}, [](const Token& t) { return t.location.begin; });
  uint32_t commas = 0;
  int depth = 0;
  for (auto at = static_cast<size_t>(after - tokens.begin()); at-- > 0;) {
    const TokenKind kind = tokens[at].kind;
    if (kind == TokenKind::LeftBrace || kind == TokenKind::RightBrace) return std::nullopt;
    if (closes(kind)) ++depth;
    if (depth == 0 && kind == TokenKind::Comma) ++commas;
    if (!opens(kind) || depth-- > 0) continue;
    depth = 0;
    if (kind == TokenKind::LeftParen) {
      if (const Symbol* callee = callee_before(analysis, at)) return CallAt{callee, commas};
    }
    commas = 0;
  }
  return std::nullopt;
}

std::vector<Occurrence> occurrences_of(const Analysis& analysis, uint32_t symbol) {
  std::vector<Occurrence> result;
  for (const Occurrence& occurrence : analysis.index.occurrences) {
    if (occurrence.symbol == symbol) result.push_back(occurrence);
  }
  return result;
}

std::string why_not_renamed(const Symbol& symbol, uint32_t prelude) {
  if (symbol.kind == Symbol::Kind::Builtin) return "a built-in function has no other name";
  if (symbol.location.file == prelude) return "the prelude's names stay";
  return "";
}

std::string why_not_a_name(std::string_view name) {
  const SourceFile file("name", std::string(name));
  Diagnostics diagnostics;
  const std::vector<Token> tokens = lex(file, 0, diagnostics);
  const bool one = tokens.size() == 2 && tokens[0].kind == TokenKind::Name &&
                   tokens[0].location.begin == 0 && tokens[0].location.end == name.size();
  if (diagnostics.has_errors() || !one) return "this is not a name of the language";
  if (name == "t") return "`t` names the step";
  if (find_builtin(name)) return "this is a built-in function's name";
  return "";
}

bool same_meaning(const Analysis& before, const Analysis& after) {
  const auto& left = before.index.occurrences;
  const auto& right = after.index.occurrences;
  return before.index.symbols.size() == after.index.symbols.size() &&
         std::ranges::equal(left, right, [](const Occurrence& a, const Occurrence& b) {
           return a.symbol == b.symbol && a.location.file == b.location.file;
         });
}

}  // namespace rnnc::lsp
