/// Fused elementwise kernels as LLVM functions of the type `CpuKernel`.
#pragma once

#include <llvm/IR/Module.h>

#include <string>

#include "codegen/cpu/argument_strides.h"
#include "codegen/cpu/host_target.h"
#include "ir/plan/plan.h"

namespace rnnc {

/// Adds the function `name` to `module`. Arithmetic is in `dtype`, f32 or f64. `strides` that are
/// known are constants of the code, which then does not look at the caller's.
void emit_kernel(llvm::Module& module, const HostTarget& host, const Kernel& kernel,
                 const ArgumentStrides& strides, DType dtype, const std::string& name);

}  // namespace rnnc
