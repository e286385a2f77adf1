#include "tools/serve/guard.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>

#include "runtime/base/descriptor.h"

namespace rnnc::serve {

Result<std::string> make_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return fail("no random numbers: {}", error_text(errno));
  }
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

bool is_same_secret(std::string_view left, std::string_view right) {
  if (left.size() != right.size()) return false;
  // Volatile: the loop goes to its end.
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (left[i] ^ right[i]));
  }
  return difference == 0;
}

std::optional<std::string_view> path_below(std::string_view target, std::string_view token) {
  const size_t end = token.size() + 1;
  if (target.size() <= end || target.front() != '/' || target[end] != '/') return std::nullopt;
  if (!is_same_secret(target.substr(1, token.size()), token)) return std::nullopt;
  return target.substr(end + 1);
}

bool is_own_host(std::string_view host, uint16_t port) {
  return host == fmt::format("127.0.0.1:{}", port) || host == fmt::format("localhost:{}", port);
}

bool is_own_origin(std::string_view origin, uint16_t port) {
  constexpr std::string_view kScheme = "http://";
  return origin.starts_with(kScheme) && is_own_host(origin.substr(kScheme.size()), port);
}

}  // namespace rnnc::serve
