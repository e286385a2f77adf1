/// The kernel that adds up rows (totals.cuh).
#pragma once

#include "codegen/cuda/device/cuda_module.h"

namespace rnnc {

/// Adds the kernel to the module if totals of the plan need it, and says which do.
void add_total_kernel(const Plan& plan, CudaModule& module);

/// Adds it if it is not there (CudaModule::total). Gives its index.
uint32_t need_total_kernel(CudaModule& module);

}  // namespace rnnc
