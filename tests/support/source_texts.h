/// Texts in C++ sources, for tests that what a program can say is tested on its words.
#pragma once

#include <string>
#include <vector>

namespace rnnc {

/// The string literals of a C++ file, adjacent ones joined.
std::vector<std::string> literals(const std::string& text);

/// What a format string says itself, around what is put in.
std::vector<std::string> fixed_parts(const std::string& format);

/// Whether some line has the parts, in their order.
bool says(const std::vector<std::string>& lines, const std::vector<std::string>& parts);

}  // namespace rnnc
