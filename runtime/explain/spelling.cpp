#include "runtime/explain/spelling.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace rnnc::explain {
namespace {

/// Three digits and a prefix: "1.23 M", "512 K".
std::string scaled(double value, double base, const std::array<std::string_view, 5>& prefixes) {
  size_t prefix = 0;
  while (value >= base && prefix + 1 < prefixes.size()) {
    value /= base;
    ++prefix;
  }
  const int digits = value >= 100 || (prefix == 0 && value == static_cast<int64_t>(value)) ? 0
                     : value >= 10                                                         ? 1
                                                                                           : 2;
  return fmt::format("{:.{}f} {}", value, digits, prefixes[prefix]);
}

}  // namespace

std::string count_text(double count) {
  std::string text = scaled(count, 1000, {"", "K", "M", "G", "T"});
  return text.ends_with(' ') ? text.substr(0, text.size() - 1) : text;
}

std::string bytes_text(double bytes) {
  return scaled(bytes, 1024, {"bytes", "KiB", "MiB", "GiB", "TiB"});
}

std::string rate_text(double bytes) {
  return scaled(bytes, 1000, {"B/s", "KB/s", "MB/s", "GB/s", "TB/s"});
}

std::string flop_text(double flops) {
  return scaled(flops, 1000, {"", "K", "M", "G", "T"}) + "FLOP";
}

std::string time_text(double seconds) {
  return scaled(seconds * 1e9, 1000, {"ns", "us", "ms", "s", "ks"});
}

}  // namespace rnnc::explain
