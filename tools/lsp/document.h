/// An open text and what is known of it. Protocol is no business of this: tests ask it directly.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/syntax/lexer.h"
#include "frontend/unit.h"
#include "runtime/program/read_unit.h"
#include "tools/lsp/symbols.h"
#include "tools/lsp/text.h"

namespace rnnc::lsp {

/// A half-open range of bytes of the document.
struct Range {
  uint32_t begin = 0;
  uint32_t end = 0;
};

/// A text that was parsed; its names are known, and once it is checked its shapes.
struct Analysis {
  Unit unit;
  SymbolIndex index;
  std::vector<Token> tokens;  // of the document itself
  CheckWatch watch;
  bool diagnosed = false;  // what is wrong is known
  bool checked = false;    // and all shapes
  bool stopped = false;    // before all that is wrong was found
};

class Document {
 public:
  /// `path` is the file's name, also of one that is not on disk.
  Document(std::string path, std::string text, Shadow shadow)
      : path_(std::move(path)), text_(std::move(text)), shadow_(std::move(shadow)) {}

  const std::string& path() const { return path_; }
  const Text& text() const { return text_; }
  void replace_all(std::string text);
  /// Between two places, in any order.
  void replace(Position from, Position to, std::string_view text);
  /// Some other text changed, which this one may import.
  void forget() { analysis_.reset(); }

  /// Parsed if it was not since the last change.
  const Analysis& parsed();
  /// With all that is wrong as well, unless `stop` says otherwise before the end: then `diagnosed`
  /// is false. Passes over what was found to be clean before.
  const Analysis& diagnosed(const std::function<bool()>& stop = {});
  /// Checked as a whole.
  const Analysis& checked();

 private:
  void parse();

  std::string path_;
  Text text_;
  Shadow shadow_;
  std::unique_ptr<Analysis> analysis_;  // tokens and symbols point into its unit
  CheckMemory memory_;
};

/// The item, or null, that begins last before the byte.
const ast::Item* item_at(const Analysis& analysis, uint32_t offset);
/// From an item's first token to its last, and of each `{ … }` from one brace to the other.
struct Blocks {
  struct Item {
    const ast::Item* item;
    Range range;
  };
  std::vector<Item> items;
  std::vector<Range> braces;
};
Blocks blocks_of(const Analysis& analysis);

/// The shape of one of the index's names where it is first given one (`zeros(0)` has none), or
/// nothing.
const Type* type_of(const Analysis& analysis, const Symbol& symbol);

/// What is said of the place: Markdown, and what it is about; nothing where there is nothing.
struct Hover {
  std::string text;
  SourceLocation place;
};
std::optional<Hover> hover(const Analysis& analysis, uint32_t offset);

/// The call whose arguments the byte is among.
struct CallAt {
  const Symbol* callee;
  uint32_t argument;  // counted from 0
};
std::optional<CallAt> call_at(const Analysis& analysis, uint32_t offset);

/// Where the symbol stands, in all files of the unit.
std::vector<Occurrence> occurrences_of(const Analysis& analysis, uint32_t symbol);

/// Why the symbol cannot have another name, or this one not; "" if it can.
std::string why_not_renamed(const Symbol& symbol, uint32_t prelude);
std::string why_not_a_name(std::string_view name);
/// Whether both texts mean the same but for names: each stands for what it did before.
bool same_meaning(const Analysis& before, const Analysis& after);

}  // namespace rnnc::lsp
