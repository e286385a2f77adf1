/// A kernel with reductions as a CUDA C++ function: one block per row.
#pragma once

#include <string>

#include "codegen/cuda/device/kernel_abi.h"
#include "codegen/cuda/elementwise/kernel_traits.h"
#include "ir/plan/plan.h"

namespace rnnc {

/// The function named `cuda_kernel_name(index)`, to stand behind the prelude.
std::string emit_row_kernel(const Kernel& kernel, size_t index, const KernelTraits& traits);

}  // namespace rnnc
