/// What tells this rnnc's code from that of one that was built from other sources.
#pragma once

#include <string_view>

namespace rnnc {

/// A hash of the sources that decide which code a plan becomes: those of ir/ and codegen/. The
/// build makes it.
std::string_view generator_hash();

}  // namespace rnnc
