/// The text of prelude.cuh, embedded by the build.
#pragma once

#include <string_view>

namespace rnnc {

extern const std::string_view kCudaPrelude;

}  // namespace rnnc
