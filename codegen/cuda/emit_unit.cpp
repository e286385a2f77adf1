#include "codegen/cuda/cuda_code.h"
#include "codegen/cuda/device/kernel_abi.h"
#include "codegen/cuda/device/prelude.h"
#include "codegen/cuda/elementwise/emit_kernel.h"
#include "codegen/cuda/elementwise/loop_kernels.h"
#include "codegen/cuda/elementwise/state_kernel.h"
#include "codegen/cuda/fused/fused_kernels.h"
#include "codegen/cuda/persistent/recurrence_kernels.h"

namespace rnnc {
namespace {

/// Of sequence.cuh what the plan needs: all of it is more to compile than many a recurrence.
std::string emit_sequence_kernels(const Plan& plan) {
  std::string code;
  for (const std::string& name : cuda_sequence_kernels(plan)) {
    code += fmt::format("#define has_{} 1\n", name);
  }
  if (!code.empty()) code += kCudaSequence;
  return code;
}

}  // namespace

Result<std::string> emit_cuda(const Plan& plan, std::string_view arch) {
  if (plan.dtype == DType::f64) {
    return fail("f64 runs on the CPU only; on a GPU use f32, bf16 or f16");
  }
  for (const Kernel& kernel : plan.kernels) {
    if (std::ssize(kernel.arguments) > kMostArrays) {
      return fail("one step reads and writes {} arrays; on a GPU at most {} work",
                  kernel.arguments.size(), kMostArrays);
    }
  }
  const CudaFusedKernels fused(plan, arch);
  if (!fused.status()) return tl::unexpected(fused.status().error());
  std::string unit(kCudaPrelude);
  unit += fused.code();
  unit += CudaLoopKernels(plan).code();
  unit += CudaRecurrenceKernels(plan).code();
  unit += emit_sequence_kernels(plan);
  const CudaStateKernel states(plan);
  unit += states.code();
  const std::vector<std::optional<KernelTraits>> traits = kernel_traits(plan);
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    if (!traits[i] || states.has_alone(i)) continue;
    unit += '\n';
    unit += emit_cuda_kernel(plan.kernels[i], i, *traits[i]);
  }
  return unit;
}

}  // namespace rnnc
