#include "tools/lsp/semantic_tokens.h"

namespace rnnc::lsp {
namespace {

using Kind = Symbol::Kind;

// Places in the legend.
enum TokenType : uint8_t { kClass, kFunction, kTypeParameter, kParameter, kProperty, kVariable };
constexpr uint32_t kDeclaration = 1, kReadonly = 2, kDefaultLibrary = 4, kModification = 8;

struct Colour {
  TokenType type;
  uint32_t modifiers = 0;
};

/// A state differs from a local value by being a variable that is modified.
Colour colour_of(Kind kind) {
  switch (kind) {
    case Kind::Cell:
    case Kind::Network:
      return {kClass};
    case Kind::Fn:
      return {kFunction};
    case Kind::Builtin:
      return {kFunction, kDefaultLibrary};
    case Kind::Dim:
      return {kTypeParameter};
    case Kind::Input:
    case Kind::Parameter:
      return {kParameter};
    case Kind::Param:
      return {kProperty};
    case Kind::State:
      return {kVariable, kModification};
    case Kind::Const:
    case Kind::LoopIndex:
      return {kVariable, kReadonly};
    case Kind::Local:
      return {kVariable};
  }
  return {kVariable};
}

}  // namespace

nlohmann::ordered_json token_legend() {
  return {
      {"tokenTypes", {"class", "function", "typeParameter", "parameter", "property", "variable"}},
      {"tokenModifiers", {"declaration", "readonly", "defaultLibrary", "modification"}}};
}

std::vector<uint32_t> pack_tokens(const Analysis& analysis, const Text& text) {
  std::vector<uint32_t> packed;
  Position last;
  for (const Occurrence& occurrence : analysis.index.occurrences) {
    if (occurrence.location.file != 0) continue;
    const Symbol& symbol = analysis.index.symbols[occurrence.symbol];
    const Position begin = text.position(occurrence.location.begin);
    const Position end = text.position(occurrence.location.end);
    const Colour colour = colour_of(symbol.kind);
    const bool declares = symbol.kind != Kind::Builtin && symbol.location.file == 0 &&
                          symbol.location.begin == occurrence.location.begin;
    const bool same_line = begin.line == last.line;
    packed.insert(packed.end(),
                  {begin.line - last.line, begin.character - (same_line ? last.character : 0),
                   end.character - begin.character, colour.type,
                   colour.modifiers | (declares ? kDeclaration : 0U)});
    last = begin;
  }
  return packed;
}

}  // namespace rnnc::lsp
