#include "codegen/cuda/cuda_code.h"
#include "codegen/cuda/emit_kernel.h"
#include "codegen/cuda/fused_kernels.h"
#include "codegen/cuda/kernel_abi.h"
#include "codegen/cuda/loop_kernels.h"
#include "codegen/cuda/prelude.h"

namespace rnnc {
namespace {

/// By kernel: whether a launch runs it as it stands. The kernels of fused and loop launches are
/// parts of others.
std::vector<bool> launched_kernels(const Plan& plan) {
  std::vector<bool> launched(plan.kernels.size(), false);
  for (const Stage& stage : plan.stages) {
    for (const Launch& launch : stage.launches) {
      if (const auto* kernel = std::get_if<ElementwiseLaunch>(&launch)) {
        launched[kernel->kernel] = true;
      }
    }
  }
  for (const StatePlan& state : plan.states) {
    for (const ElementwiseLaunch* launch :
         {&state.init_given, &state.init_declared, &state.write_final}) {
      launched[launch->kernel] = true;
    }
  }
  return launched;
}

}  // namespace

Result<std::string> emit_cuda(const Plan& plan) {
  if (plan.dtype == DType::f64) {
    return fail("f64 runs on the CPU only; on a GPU use f32, bf16 or f16");
  }
  for (const Kernel& kernel : plan.kernels) {
    if (kernel.arguments.size() > kCudaMaxArguments) {
      return fail("one step reads and writes {} arrays; on a GPU at most {} work",
                  kernel.arguments.size(), kCudaMaxArguments);
    }
  }
  const CudaFusedKernels fused(plan);
  if (!fused.status()) return tl::unexpected(fused.status().error());
  std::string unit(kCudaPrelude);
  unit += fused.code();
  unit += CudaLoopKernels(plan).code();
  if (has_sequence_kernels(plan)) unit += kCudaSequence;
  const std::vector<bool> launched = launched_kernels(plan);
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    if (!launched[i]) continue;
    unit += '\n';
    unit += emit_cuda_kernel(plan.kernels[i], i);
  }
  return unit;
}

}  // namespace rnnc
