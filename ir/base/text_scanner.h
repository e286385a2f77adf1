/// What parsers of the IR's text forms derive from: tokens of a text, one after the other, with
/// white space and `#` comments between any two of them.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

namespace rnnc {

class TextScanner {
 protected:
  explicit TextScanner(std::string_view text) : text_(text) {}

  /// Takes the token if it comes next.
  bool take(char expected);
  /// A word ends where a name would.
  bool take_word(std::string_view word);
  /// Takes a number if one comes next that `Number` can hold; otherwise says why not.
  template <typename Number>
  std::errc take_number(Number& number) {
    skip_spaces();
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), number);
    if (error == std::errc()) position_ += static_cast<size_t>(end - begin);
    return error;
  }

  void skip_spaces();
  /// What comes next, for an error: "found `abc`" or "found the end".
  std::string found();

  /// Of a byte, counted from one; columns in bytes.
  struct Place {
    size_t line = 1;
    size_t column = 1;
  };
  Place place_of(size_t position) const;

  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace rnnc
