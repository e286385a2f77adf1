/// What tells this rnnc's code from that of one that was built from other sources.
#pragma once

#include <string_view>

namespace rnnc {

/// A hash of the sources that decide which code a plan becomes: those of ir/ and codegen/. The
/// build makes it.
std::string_view generator_hash();

/// Of all that decides which code a graph becomes: the sources of ir/, passes/, codegen/ and runtime/,
/// how they were compiled, and the options of the build. Likewise.
std::string_view planner_hash();

}  // namespace rnnc
