/// What was probably meant by a name that is not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/syntax/diagnostics.h"

namespace rnnc {

/// "did you mean `W_i`?", with the edit: the candidate that looks the same (then the letter that
/// does not belong is named, such as a Cyrillic one), else the nearest; else `otherwise`.
Hint did_you_mean(SourceLocation place, std::string_view name,
                  const std::vector<std::string>& candidates, Hint otherwise = {});

/// `name` with each letter replaced by the ASCII one that it looks like.
std::string ascii_look(std::string_view name);

/// "`х` (U+0445)".
std::string describe_character(std::string_view character);

}  // namespace rnnc
