/// One `Kernel` of a plan as a CUDA C++ function.
#pragma once

#include <string>

#include "codegen/cuda/elementwise/kernel_traits.h"
#include "ir/plan/plan.h"

namespace rnnc {

/// The function named `cuda_kernel_name(index)`. Only numbers of the plan go into the text: names
/// come from users and may be anything.
std::string emit_cuda_kernel(const Kernel& kernel, size_t index, const KernelTraits& traits);

/// A kernel without reductions as a function of the device, which kernels call with CudaRows and
/// CudaAccesses. Its threads have `traits.items` elements each.
std::string emit_cuda_function(const Kernel& kernel, size_t index, const KernelTraits& traits);
std::string cuda_function_name(size_t index);

}  // namespace rnnc
