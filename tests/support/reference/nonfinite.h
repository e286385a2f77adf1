/// NaN and infinity in inputs, params and states must flow through a compiled cell as they do
/// through the interpreter.
#pragma once

#include <string>
#include <vector>

#include "runtime/program/program.h"

namespace rnnc::test {

/// Puts NaN, infinity and -infinity into each array of a small case of a shipped cell in turn.
/// Gives a line for each result that then differs from the interpreter's by more than `tolerance`.
Result<std::vector<std::string>> nonfinite_differences(const std::string& cell,
                                                       const CompileOptions& options,
                                                       double tolerance);

}  // namespace rnnc::test
