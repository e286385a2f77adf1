/// An Explanation for people and programs.
#pragma once

#include <string>

#include "tools/explain/explanation.h"

namespace rnnc::tools {

/// For a terminal, lines of at most about 100 characters where names allow.
std::string explanation_text(const Explanation& explanation);

/// One object; docs/explain.md lists its keys.
std::string explanation_json(const Explanation& explanation);

/// One self-contained page: the JSON, and the style and scripts of page/ that draw it.
std::string explanation_page(const Explanation& explanation);

}  // namespace rnnc::tools
