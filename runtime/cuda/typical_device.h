/// GPUs as their drivers describe them, for plans that are made where no GPU is.
#pragma once

#include <string_view>

#include "runtime/cuda/cuda_device.h"

namespace rnnc::cuda {

/// One of an architecture, "sm_90". An error lists those that are known.
Result<CudaDevice> typical_cuda_device(std::string_view arch);

}  // namespace rnnc::cuda
