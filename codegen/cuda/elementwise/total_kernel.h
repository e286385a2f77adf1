/// The kernel that adds up rows (totals.cuh).
#pragma once

#include "codegen/cuda/device/cuda_module.h"

namespace rnnc {

/// Adds the kernel to the module if totals of the plan or its scans need it, and says which totals
/// do.
void add_total_kernel(const Plan& plan, CudaModule& module);

}  // namespace rnnc
