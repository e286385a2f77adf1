#include "ir/base/source_file.h"

#include <algorithm>
#include <utility>

namespace rnnc {

SourceFile::SourceFile(std::string name, std::string text)
    : name_(std::move(name)), text_(std::move(text)), line_starts_{0} {
  for (size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') line_starts_.push_back(static_cast<uint32_t>(i + 1));
  }
}

LineColumn SourceFile::position(uint32_t offset) const {
  offset = std::min(offset, static_cast<uint32_t>(text_.size()));
  const auto next = std::ranges::upper_bound(line_starts_, offset);
  const auto line = static_cast<uint32_t>(next - line_starts_.begin());
  const std::string_view before = text().substr(*(next - 1), offset - *(next - 1));
  // Every byte but UTF-8's continuation bytes starts a character.
  const auto characters = std::ranges::count_if(before, [](char c) { return (c & 0xC0) != 0x80; });
  return {line, static_cast<uint32_t>(characters) + 1};
}

std::string_view SourceFile::line_at(uint32_t offset) const {
  offset = std::min(offset, static_cast<uint32_t>(text_.size()));
  const uint32_t begin = *(std::ranges::upper_bound(line_starts_, offset) - 1);
  std::string_view line = text().substr(begin);
  line = line.substr(0, line.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string_view SourceFile::slice(SourceLocation location) const {
  const auto begin = std::min<size_t>(location.begin, text_.size());
  const auto end = std::clamp<size_t>(location.end, begin, text_.size());
  return text().substr(begin, end - begin);
}

}  // namespace rnnc
