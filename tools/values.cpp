#include "tools/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

#include "runtime/backend/device.h"
#include "runtime/base/describe.h"

namespace rnnc::tools {
namespace {

template <typename T>
std::optional<T> parse_all(std::string_view text) {
  T value{};
  const char* begin = std::to_address(text.begin());
  const char* end = begin + text.size();
  const auto [rest, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

template <typename T>
CLI::Validator in_range(T least, T most, const std::string& kind, const std::string& range) {
  const auto check = [=](const std::string& text) -> std::string {
    const std::optional<T> value = parse_all<T>(text);
    if (value && *value >= least && *value <= most) return "";
    return fmt::format("expected a {} from {}, got {}", kind, range, quote(text));
  };
  return {check, ""};
}

}  // namespace

CLI::Validator one_of(std::vector<std::string> choices) {
  std::string description = fmt::format("{{{}}}", fmt::join(choices, ","));
  const auto check = [choices = std::move(choices)](const std::string& text) -> std::string {
    if (std::ranges::find(choices, text) != choices.end()) return "";
    return fmt::format("expected one of {}, got {}", fmt::join(choices, ", "), quote(text));
  };
  return {check, std::move(description)};
}

CLI::Validator whole_number(int64_t least, int64_t most) {
  return in_range(least, most, "whole number", fmt::format("{} to {}", least, most));
}

CLI::Validator number(double least, double most) {
  return in_range(least, most, "number", fmt::format("{} to {}", least, most));
}

CLI::Validator seed_value() {
  return in_range<uint64_t>(0, std::numeric_limits<uint64_t>::max(), "whole number",
                            "0 to 2^64 - 1");
}

CLI::Validator device_name() {
  const auto check = [](const std::string& text) {
    const Result<Device> device = Device::parse(text);
    return device ? "" : device.error().message;
  };
  return {check, "{cpu,cuda}"};
}

}  // namespace rnnc::tools
