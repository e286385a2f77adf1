#include "frontend/syntax/utf8.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace rnnc::utf8 {
namespace {

const utf8proc_property_t& property(char32_t code_point) {
  return *utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point));
}

std::string normalised(std::string_view text, int form) {
  const bool ascii = std::ranges::all_of(text, [](char c) { return (c & 0x80) == 0; });
  if (ascii) return std::string(text);
  utf8proc_uint8_t* result = nullptr;
  const auto options = static_cast<utf8proc_option_t>(form | UTF8PROC_STABLE);
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                   static_cast<utf8proc_ssize_t>(text.size()), &result, options);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  if (length < 0) return std::string(text);  // no UTF-8, which has no normal form
  return {reinterpret_cast<const char*>(result), static_cast<size_t>(length)};
}

}  // namespace

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

std::string encode(char32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  return {reinterpret_cast<const char*>(bytes), static_cast<size_t>(length)};
}

bool starts_name(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  switch (property(c).category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_NL:
      return property(c).ignorable == 0;  // fillers, which one does not see
    default:
      return false;
  }
}

bool continues_name(char32_t c) {
  if (c < 0x80) return starts_name(c) || (c >= '0' && c <= '9');
  const bool subscript = c >= 0x2080 && c <= 0x2089;
  const bool prime = (c >= 0x2032 && c <= 0x2034) || c == 0x2057;
  switch (property(c).category) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ND:
      return property(c).ignorable == 0;
    default:
      return subscript || prime || starts_name(c);
  }
}

bool is_printable(char32_t c) {
  if (c < 0x80) return c >= 0x20 && c != 0x7F;
  switch (property(c).category) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Character character = decode(text);
    const size_t length = std::max<size_t>(character.length, 1);
    if (character.length > 0 && is_printable(character.code_point)) {
      result += text.substr(0, length);
    } else {
      for (const char byte : text.substr(0, length)) {
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
    text.remove_prefix(length);
  }
  return result;
}

uint32_t columns(char32_t c) {
  return static_cast<uint32_t>(utf8proc_charwidth(static_cast<utf8proc_int32_t>(c)));
}

std::string compose(std::string_view text) {
  return normalised(text, UTF8PROC_COMPOSE);
}

std::string compose_compatible(std::string_view text) {
  return normalised(text, UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
}

}  // namespace rnnc::utf8
