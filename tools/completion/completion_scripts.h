/// The text of `rnnc completion`, from tools/completion/.
#pragma once

#include <string>

namespace rnnc::tools {

/// `shell`: bash, zsh or fish.
std::string completion_script(const std::string& shell);

}  // namespace rnnc::tools
