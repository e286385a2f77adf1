#include "frontend/utf8.h"

namespace rnnc::utf8 {

Character decode(std::string_view text) {
  if (text.empty()) return {};
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const uint32_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
  char32_t code_point = lead & (0x7Fu >> length);
  for (uint32_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code_point = code_point << 6 | (byte(i) & 0x3F);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (code_point < kSmallest[length] || code_point > 0x10FFFF || surrogate) return {};
  return {code_point, length};
}

bool is_letter(char32_t c) {
  const bool latin = c >= 0xC0 && c <= 0x24F && c != 0xD7 && c != 0xF7;
  const bool greek = c >= 0x370 && c <= 0x3FF && c != 0x37E && c != 0x387;
  return latin || greek;
}

bool is_printable(char32_t c) {
  return c >= 0x20 && !(c >= 0x7F && c < 0xA0);
}

}  // namespace rnnc::utf8
