/// The kernels of a plan's scan launches.
#pragma once

#include "codegen/cuda/device/cuda_module.h"
#include "ir/plan/plan.h"

namespace rnnc {

/// Adds what scan.cuh has and a kernel for each kind of scan launch, if there is one.
void add_scan_kernels(const Plan& plan, CudaModule& module);

}  // namespace rnnc
