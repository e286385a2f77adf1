#include "tools/lsp/text.h"

#include <algorithm>

#include "frontend/syntax/utf8.h"

namespace rnnc::lsp {
namespace {

struct Step {
  uint32_t bytes;
  uint32_t units;
};

/// The first character of a text that is not empty; a byte that is no UTF-8 counts as one.
Step step(std::string_view text) {
  if (static_cast<unsigned char>(text[0]) < 0x80) return {1, 1};
  const utf8::Character character = utf8::decode(text);
  if (character.length == 0) return {1, 1};
  return {character.length, character.code_point > 0xFFFF ? 2U : 1U};
}

}  // namespace

void Text::find_lines() {
  line_starts_ = {0};
  for (size_t at = text_.find('\n'); at != std::string::npos; at = text_.find('\n', at + 1)) {
    line_starts_.push_back(static_cast<uint32_t>(at + 1));
  }
}

uint32_t Text::offset(Position position) const {
  if (position.line >= line_starts_.size()) return static_cast<uint32_t>(text_.size());
  const uint32_t begin = line_starts_[position.line];
  std::string_view line = std::string_view(text_).substr(begin);
  line = line.substr(0, line.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  uint32_t units = 0;
  uint32_t bytes = 0;
  while (bytes < line.size()) {
    const Step next = step(line.substr(bytes));
    if (units + next.units > position.character) break;
    units += next.units;
    bytes += next.bytes;
  }
  return begin + bytes;
}

Position Text::position(uint32_t offset) const {
  offset = std::min(offset, static_cast<uint32_t>(text_.size()));
  const auto line = std::ranges::upper_bound(line_starts_, offset) - line_starts_.begin() - 1;
  const uint32_t begin = line_starts_[static_cast<size_t>(line)];
  uint32_t units = 0;
  for (uint32_t at = begin; at < offset;) {
    const Step next = step(std::string_view(text_).substr(at));
    if (at + next.bytes > offset) break;
    units += next.units;
    at += next.bytes;
  }
  return {static_cast<uint32_t>(line), units};
}

void Text::replace(uint32_t begin, uint32_t end, std::string_view replacement) {
  text_.replace(begin, end - begin, replacement);
  find_lines();
}

}  // namespace rnnc::lsp
