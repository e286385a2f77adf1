/// Device code that generated units start from, embedded by the build.
#pragma once

#include <string_view>

namespace rnnc {

extern const std::string_view kCudaPrelude;      // prelude.cuh: every unit
extern const std::string_view kCudaStepProduct;  // step_product.cuh: units with such products
extern const std::string_view kCudaSequence;     // sequence.cuh: units with such launches

}  // namespace rnnc
