#include "runtime/base/describe.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/syntax/diagnostics.h"
#include "frontend/syntax/utf8.h"

namespace rnnc {
namespace {

constexpr size_t kLongestQuote = 120;

}  // namespace

std::string quote(std::string_view text) {
  size_t end = std::min(text.size(), kLongestQuote);
  while (end < text.size() && end > 0 && (text[end] & 0xC0) == 0x80) --end;
  return fmt::format("`{}{}`", utf8::printable(text.substr(0, end)),
                     end < text.size() ? "..." : "");
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_name(name, candidates);
  return nearest.empty() ? "" : fmt::format(" (did you mean `{}`?)", nearest);
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
