/// What a name may look like in the IR: `h`, `LSTM.0.W_i`, `h@2`, and any UTF-8 letter.
#pragma once

#include <algorithm>
#include <string_view>

namespace rnnc {

inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Bytes of multi-byte UTF-8 characters count as letters.
inline bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

inline bool continues_name(char c) {
  return starts_name(c) || is_digit(c) || c == '.' || c == '@';
}

inline bool is_name(std::string_view text) {
  return !text.empty() && starts_name(text.front()) && std::ranges::all_of(text, continues_name);
}

}  // namespace rnnc
