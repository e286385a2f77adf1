#include "runtime/describe.h"

#include <fmt/format.h>

namespace rnnc {
namespace {

constexpr size_t kLongestQuote = 120;

/// Bytes of the UTF-8 character that `text` starts with; 0 if it starts with none.
size_t utf8_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string quote(std::string_view text) {
  std::string result = "`";
  while (!text.empty()) {
    if (result.size() > kLongestQuote) {
      result += "...";
      break;
    }
    const size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    // C1 control characters are C2 80 to C2 9F.
    const bool control =
        first < 0x20 || first == 0x7f ||
        (length == 2 && first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0);
    if (length == 0 || control) {
      result += fmt::format("\\x{:02x}", first);
      text.remove_prefix(1);
    } else {
      result += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return result + "`";
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::optional<int64_t> count_elements(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, size, &product) || product > (int64_t{1} << 62)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : product;
}

}  // namespace rnnc
