/// Fused launches as CUDA kernels: which launches share one, with which grid it is launched, and
/// its code. Products that are not a library's (GemmLaunch::own) are fused launches without
/// elementwise work.
#pragma once

#include <string_view>

#include "codegen/cuda/device/arch.h"
#include "codegen/cuda/device/cuda_module.h"
#include "codegen/cuda/device/kernel_abi.h"
#include "ir/plan/plan.h"

namespace rnnc {

/// Of all fused launches and such products of Step stages, for GPUs of an architecture; to stand
/// behind the prelude. An error where a launch fits no kernel.
Status add_fused_kernels(const Plan& plan, std::string_view arch, CudaModule& module);

}  // namespace rnnc
