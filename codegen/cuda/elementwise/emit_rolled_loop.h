/// A loop launch's kernel that has loops of its own as a CUDA C++ function.
#pragma once

#include <string>

#include "codegen/cuda/elementwise/emit_loop.h"

namespace rnnc {

/// The function of that name, to stand behind the prelude. A thread has one element.
std::string emit_rolled_loop_kernel(const Kernel& kernel, const LoopTraits& traits,
                                    const CudaKernelShape& shape, std::string_view name);

}  // namespace rnnc
