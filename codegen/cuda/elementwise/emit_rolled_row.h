/// A kernel with reductions and loops as a CUDA C++ function: one block per row, a thread for each
/// element.
#pragma once

#include <string>

#include "ir/plan/plan.h"

namespace rnnc {

/// The function named `cuda_kernel_name(index)`, to stand behind the prelude. Of no variance, and
/// rows of at most 1024 elements.
std::string emit_rolled_row_kernel(const Kernel& kernel, size_t index);

}  // namespace rnnc
