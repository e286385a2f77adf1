/// What several callers of one program may rely on, as a check for any device.
#pragma once

#include "runtime/program/program.h"

namespace rnnc::test {

/// Runners of one program, and forward calls between their runs, each run on params of their own:
/// all give the bits that a program of their own would. Failures are GoogleTest's.
void check_shared_program(const CompileOptions& options);

}  // namespace rnnc::test
