/// UTF-8 and Unicode, as far as source text and what is shown of it need them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rnnc::utf8 {

struct Character {
  char32_t code_point = 0;
  uint32_t length = 0;  // bytes; 0 if the text does not start with a valid character
};

/// The first character of `text`. Overlong forms and surrogates are invalid.
Character decode(std::string_view text);
std::string encode(char32_t code_point);

/// Letters of any alphabet, and `_`.
bool starts_name(char32_t code_point);
/// Those, their combining marks, digits, subscript digits and primes (θ₁, α′): Unicode's
/// XID_Continue as far as one sees it, and what papers add.
bool continues_name(char32_t code_point);

/// False for what a terminal might obey or what reorders text: control and format characters,
/// those that set the direction among them.
bool is_printable(char32_t code_point);
/// `text` with each byte of what is not printable, or no UTF-8, as \xNN.
std::string printable(std::string_view text);

/// Columns that a terminal takes: 0 for a combining mark, 2 for a wide letter.
uint32_t columns(char32_t code_point);

/// Normal form C, in which two spellings of one letter (ĥ, and h followed by U+0302) are equal.
std::string compose(std::string_view text);
/// Normal form KC, in which fullwidth, mathematical and other forms of a letter are that letter.
std::string compose_compatible(std::string_view text);

}  // namespace rnnc::utf8
