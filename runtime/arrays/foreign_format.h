/// Files of weights in formats that rnnc does not read, told by their first bytes, with the way to
/// make them readable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rnnc {

/// As many of a file's first bytes as are looked at.
constexpr uint64_t kForeignStart = 64;

/// "`w.pt` is a pickle…; convert it:" and a line of Python, or "" if the format is not known.
/// `name` is the file's, as it is given.
std::string describe_foreign(std::string_view start, std::string_view name);

/// Likewise, of a zip archive without arrays, by a member's name.
std::string describe_foreign_archive(std::string_view member, std::string_view name);

}  // namespace rnnc
