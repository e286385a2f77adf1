#include "tools/lsp/framing.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace rnnc::lsp {
namespace {

constexpr std::string_view kLength = "content-length:";
constexpr std::string_view kHeaderEnd = "\r\n\r\n";
constexpr size_t kLongestHeader = 4096;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& byte : result) {
    if (byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte - 'A' + 'a');
  }
  return result;
}

/// Of the header's line that says it, if it says a number.
std::optional<size_t> length_in(std::string_view header) {
  const std::string text = lower(header);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find("\r\n", begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 2;
    if (!line.starts_with(kLength)) continue;
    line.remove_prefix(kLength.size());
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    line = line.substr(0, line.find_last_not_of(" \t") + 1);
    size_t length = 0;
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), length);
    if (error != std::errc() || rest != line.data() + line.size()) return std::nullopt;
    return length;
  }
  return std::nullopt;
}

}  // namespace

std::string framed(std::string_view body) {
  return fmt::format("Content-Length: {}\r\n\r\n{}", body.size(), body);
}

std::optional<MessageReader::Message> MessageReader::next() {
  const size_t end = bytes_.find(kHeaderEnd);
  if (end == std::string::npos) {
    if (bytes_.size() <= kLongestHeader) return std::nullopt;
    return resynchronise(1, "a header does not end");
  }
  const size_t begin = end + kHeaderEnd.size();
  const std::optional<size_t> length = length_in(std::string_view(bytes_).substr(0, end));
  if (!length) return resynchronise(begin, "a header has no length: `Content-Length: 123`");
  if (*length > kLargestMessage) {
    return resynchronise(begin, fmt::format("a message of {} bytes is longer than {} MiB", *length,
                                            kLargestMessage >> 20));
  }
  if (bytes_.size() - begin < *length) return std::nullopt;
  Message message{bytes_.substr(begin, *length), ""};
  bytes_.erase(0, begin + *length);
  return message;
}

MessageReader::Message MessageReader::resynchronise(size_t from, std::string error) {
  const size_t next = lower(bytes_).find(kLength, from);
  if (next == std::string::npos) {
    // The beginning of the next header may be there already.
    bytes_.erase(0, std::max(from, bytes_.size() - std::min(bytes_.size(), kLength.size() - 1)));
  } else {
    bytes_.erase(0, next);
  }
  return {"", std::move(error)};
}

}  // namespace rnnc::lsp
