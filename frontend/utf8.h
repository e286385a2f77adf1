/// UTF-8, as far as a source file needs it.
#pragma once

#include <cstdint>
#include <string_view>

namespace rnnc::utf8 {

struct Character {
  char32_t code_point = 0;
  uint32_t length = 0;  // bytes; 0 if the text does not start with a valid character
};

/// The first character of `text`. Overlong forms and surrogates are invalid.
Character decode(std::string_view text);

/// Letters that may stand in a name besides ASCII's: Latin and Greek, since papers use them.
bool is_letter(char32_t code_point);

/// False for control characters, which a terminal might obey.
bool is_printable(char32_t code_point);

}  // namespace rnnc::utf8
