/// A text as the protocol sees it: lines from 0, and in them UTF-16 code units.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rnnc::lsp {

struct Position {
  uint32_t line = 0;
  uint32_t character = 0;
  friend auto operator<=>(const Position&, const Position&) = default;
};

class Text {
 public:
  explicit Text(std::string text = {}) : text_(std::move(text)) { find_lines(); }

  const std::string& string() const { return text_; }
  /// The byte there; behind a line's or the text's end, that end. Never inside a character.
  uint32_t offset(Position position) const;
  /// Of a byte; of one inside a character, that character's.
  Position position(uint32_t offset) const;
  /// Puts `replacement` in place of the bytes [begin, end).
  void replace(uint32_t begin, uint32_t end, std::string_view replacement);

 private:
  void find_lines();

  std::string text_;
  std::vector<uint32_t> line_starts_;
};

}  // namespace rnnc::lsp
