/// What one launch of a GPU's kernel has room for. A plan's launches keep to it on every target.
#pragma once

#include <cstdint>

namespace rnnc {

/// Of a kernel's parameters: CUDA 12.1 and newer, from sm_70 on.
inline constexpr int64_t kMostParameterBytes = 32764;
/// Places of arrays among them, of 32 bytes each (codegen/cuda/device/kernel_abi.h), beside its
/// rows.
inline constexpr int64_t kMostArrays = 1000;
/// Results of products, in the registers of a fused launch's block.
inline constexpr int64_t kMostResults = 256;

}  // namespace rnnc
