/// Loop launches as CUDA kernels: which launches share one, and its code.
#pragma once

#include "codegen/cuda/device/cuda_module.h"

namespace rnnc {

/// Of all loop launches, to stand behind the prelude.
void add_loop_kernels(const Plan& plan, CudaModule& module);

}  // namespace rnnc
