#include "ir/base/text_scanner.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/name.h"

namespace rnnc {
namespace {

constexpr size_t kExcerpt = 20;  // bytes of the text shown in an error

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

}  // namespace

bool TextScanner::take(char expected) {
  skip_spaces();
  if (position_ == text_.size() || text_[position_] != expected) return false;
  ++position_;
  return true;
}

bool TextScanner::take_word(std::string_view word) {
  skip_spaces();
  const std::string_view rest = text_.substr(position_);
  if (!rest.starts_with(word)) return false;
  if (rest.size() > word.size() && continues_name(rest[word.size()])) return false;
  position_ += word.size();
  return true;
}

void TextScanner::skip_spaces() {
  while (position_ < text_.size()) {
    if (text_[position_] == '#') {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (is_space(text_[position_])) {
      ++position_;
    } else {
      break;
    }
  }
}

std::string TextScanner::found() {
  skip_spaces();
  if (position_ == text_.size()) return "found the end";
  std::string next(text_.substr(position_, kExcerpt));
  next.resize(std::min(next.find('\n'), next.size()));
  std::ranges::replace_if(next, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return fmt::format("found `{}`", next);
}

TextScanner::Place TextScanner::place_of(size_t position) const {
  const std::string_view before = text_.substr(0, position);
  const size_t line_begin = before.rfind('\n') + 1;  // of the first line 0: npos + 1
  return {1 + static_cast<size_t>(std::ranges::count(before, '\n')), position - line_begin + 1};
}

}  // namespace rnnc
