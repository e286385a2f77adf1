/// Who may ask: pages that this program has made, and nobody who merely reaches the port.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ir/base/status.h"

namespace rnnc::serve {

/// Of 128 random bits, in hexadecimal digits.
Result<std::string> make_token();

/// Whether both are the same, in a time that does not depend on where they differ.
bool is_same_secret(std::string_view left, std::string_view right);

/// What follows "/TOKEN/" in a request's target; nothing if it begins with something else.
std::optional<std::string_view> path_below(std::string_view target, std::string_view token);

/// Whether a Host header names this program: "127.0.0.1:PORT" or "localhost:PORT". A page elsewhere
/// whose name was made to lead here sends another.
bool is_own_host(std::string_view host, uint16_t port);
/// Likewise of an Origin header, "http://127.0.0.1:PORT": pages elsewhere send theirs.
bool is_own_origin(std::string_view origin, uint16_t port);

}  // namespace rnnc::serve
