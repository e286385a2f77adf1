/// What each name of a unit stands for, by the syntax trees alone, so that broken texts have an
/// answer too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/syntax/ast.h"
#include "frontend/unit.h"

namespace rnnc::lsp {

struct Symbol {
  enum class Kind : uint8_t {
    Cell,
    Network,
    Fn,
    Const,
    Dim,
    Input,
    Param,
    State,
    Local,
    LoopIndex,
    Parameter,  // of a fn
    Builtin,
  };
  Kind kind = Kind::Local;
  std::string name;
  SourceLocation location;          // where it is declared or first given; a Builtin has none
  const ast::Item* item = nullptr;  // it, or the one in which it is declared; null: Builtin
  const ast::Declaration* declaration = nullptr;  // Param, State
  const ast::Input* input = nullptr;              // Input
};

/// "a cell", "a state"…
std::string_view describe(Symbol::Kind kind);
bool is_item(Symbol::Kind kind);
/// "cell LSTM[I, H](x: [I]) -> h", "fn swish(v, beta)", "state h: [H] = 0".
std::string signature(const Symbol& symbol, const std::vector<SourceFile>& files);
std::string_view doc(const Symbol& symbol);

struct Occurrence {
  SourceLocation location;
  uint32_t symbol = 0;
  bool gives = false;  // is declared or given a value there
};

struct SymbolIndex {
  std::vector<Symbol> symbols;
  std::vector<Occurrence> occurrences;  // by place, each place once

  /// The one at a byte of a file, also just behind its name; null if there is none.
  const Occurrence* at(uint32_t file, uint32_t offset) const;
  /// What can be named in a body of the file: its items, what it imports, the prelude, built-in
  /// functions, and what `item` (which may be null) declares.
  std::vector<uint32_t> visible(const Unit& unit, const ast::Item* item) const;
};

SymbolIndex index_symbols(const Unit& unit);

/// By seeing file: the files whose items it sees, itself first, the prelude last.
std::vector<uint32_t> seen_files(const Unit& unit, uint32_t file);

}  // namespace rnnc::lsp
