/// Compiled code for the CPU that tests keep in the build folder: to compile it is most of their
/// time, and much of it comes again, in a suite and the next time. What is kept belongs to one text
/// and one build of rnnc.
#pragma once

#include <filesystem>

#include "runtime/backend/options.h"

namespace rnnc::test {

/// Of this test program; empty where there is no build folder, as on a machine that tests alone
/// were copied to.
std::filesystem::path kept_kernels();

/// With `kept_kernels()` as the folder of a program for the CPU that has none.
CompileOptions with_kept_kernels(CompileOptions options);

}  // namespace rnnc::test
