#include "codegen/cuda/cuda_code.h"
#include "codegen/cuda/emit_kernel.h"
#include "codegen/cuda/kernel_abi.h"
#include "codegen/cuda/prelude.h"

namespace rnnc {

Result<std::string> emit_cuda(const Plan& plan) {
  if (plan.dtype == DType::f64) {
    return fail("f64 runs on the CPU only; on a GPU use f32, bf16 or f16");
  }
  std::string unit(kCudaPrelude);
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const Kernel& kernel = plan.kernels[i];
    if (kernel.arguments.size() > kCudaMaxArguments) {
      return fail("one step reads and writes {} arrays; on a GPU at most {} work",
                  kernel.arguments.size(), kCudaMaxArguments);
    }
    unit += '\n';
    unit += emit_cuda_kernel(kernel, i);
  }
  return unit;
}

}  // namespace rnnc
