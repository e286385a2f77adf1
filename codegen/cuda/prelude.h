/// Device code that generated units start from, embedded by the build.
#pragma once

#include <string_view>

namespace rnnc {

extern const std::string_view kCudaPrelude;   // prelude.cuh: every unit
extern const std::string_view kCudaFused;     // fused.cuh: units with fused launches
extern const std::string_view kCudaSequence;  // sequence.cuh: units with such launches

}  // namespace rnnc
