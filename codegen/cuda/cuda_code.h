/// Plan → CUDA C++, and from there to PTX or cubin (codegen/cuda/nvrtc/compile.h). Needs no GPU and
/// no driver.
#pragma once

#include <string>
#include <string_view>

#include "codegen/cuda/device/arch.h"
#include "codegen/cuda/nvrtc/compile.h"
#include "ir/base/status.h"
#include "ir/plan/plan.h"

namespace rnnc {

/// The text of the plan's module (cuda_module.h).
Result<std::string> emit_cuda(const Plan& plan, std::string_view arch = kDefaultCudaArch);

}  // namespace rnnc
