/// One loop launch's kernel as a CUDA C++ function.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/device/kernel_abi.h"
#include "ir/plan/plan.h"

namespace rnnc {

/// What launches that share a kernel have in common, beside the elementwise kernel.
struct LoopTraits {
  std::vector<LoopCarry> carries;
  std::vector<bool> invariant;  // by argument: the same at every step
  int items = 1;                // neighbouring elements per thread
  bool aligned = true;          // items of every array are surely aligned to their size together
  bool descending = false;      // each step lies in front of the one before it
};

/// The function of that name, to stand behind the prelude.
std::string emit_loop_kernel(const Kernel& kernel, const LoopTraits& traits,
                             const CudaKernelShape& shape, std::string_view name);

}  // namespace rnnc
