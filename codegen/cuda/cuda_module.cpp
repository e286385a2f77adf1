// The order of the text: what stands in the prelude, then fused, loop, scan and recurrence kernels with
// their headers, those of sequence.cuh and totals.cuh, that of the states, and one for each other
// elementwise kernel.
#include "codegen/cuda/device/cuda_module.h"

#include <algorithm>
#include <map>

#include "codegen/cuda/cuda_code.h"
#include "codegen/cuda/device/kernel_text.h"
#include "codegen/cuda/device/prelude.h"
#include "codegen/cuda/elementwise/emit_kernel.h"
#include "codegen/cuda/elementwise/loop_kernels.h"
#include "codegen/cuda/elementwise/scan_kernels.h"
#include "codegen/cuda/elementwise/state_kernel.h"
#include "codegen/cuda/elementwise/total_kernel.h"
#include "codegen/cuda/fused/fused_kernels.h"
#include "codegen/cuda/persistent/recurrence_kernels.h"

namespace rnnc {
namespace {

Status check(const Plan& plan) {
  if (plan.dtype == DType::f64) {
    return fail("f64 runs on the CPU only; on a GPU use f32, bf16 or f16");
  }
  for (const Kernel& kernel : plan.kernels) {
    if (std::ssize(kernel.arguments) > kMostArrays) {
      return fail("one step reads and writes {} arrays; on a GPU at most {} work",
                  kernel.arguments.size(), kMostArrays);
    }
  }
  return {};
}

void add_prelude(const Plan& plan, CudaModule& module) {
  module.source += kCudaPrelude;
  if (plan.descending) module.source += kCudaDescending;
  module.set_frame = module.add({kCudaSetFrameName, CudaOwnShape()});
  module.end_chunk = module.add({cuda_end_chunk_name(plan), CudaOwnShape()});
}

/// Of sequence.cuh what the plan needs: all of it is more to compile than many a recurrence.
void add_sequence_kernels(const Plan& plan, CudaModule& module) {
  std::map<std::string, uint32_t> needed;  // index in the module
  for_each_launch(plan, [&](LaunchId id, const Launch& launch) {
    const std::string name = cuda_sequence_kernel(plan, launch);
    if (name.empty()) return;
    const auto [found, is_new] = needed.try_emplace(name);
    if (is_new) found->second = module.add({name, CudaOwnShape()});
    module.of(id).kernel = found->second;
  });
  for (const auto& [name, kernel] : needed) {
    module.source += fmt::format("#define has_{} 1\n", name);
  }
  if (!needed.empty()) module.source += kCudaSequence;
  if (needed.contains(kCudaResetsBackName)) module.source += kCudaResets;
}

/// But for kernels that only begin and end states, which those have in theirs.
void add_elementwise_kernels(const Plan& plan, const CudaStateKernel& states, CudaModule& module) {
  const std::vector<std::optional<KernelTraits>> traits = kernel_traits(plan);
  std::vector<uint32_t> indices(plan.kernels.size(), kNoCudaKernel);
  if (std::ranges::any_of(plan.kernels, cuda_finds_rows)) module.source += kCudaManyArrays;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    if (!traits[i] || states.has_alone(i)) continue;
    indices[i] = module.add(
        {cuda_kernel_name(i), cuda_kernel_shape(plan.kernels[i], traits[i]->of_thread())});
    module.source += '\n';
    module.source += emit_cuda_kernel(plan.kernels[i], i, *traits[i]);
  }
  for_each_launch_of<ElementwiseLaunch>(plan, [&](LaunchId id, const ElementwiseLaunch& launch) {
    module.of(id) = {indices[launch.kernel], launch.accesses};
  });
}

}  // namespace

CudaModule::CudaModule(const Plan& plan) {
  for (const Stage& stage : plan.stages) launches.emplace_back(stage.launches.size());
}

const CudaFusedShape* CudaModule::fused(LaunchId id) const {
  const uint32_t kernel = of(id).kernel;
  return kernel == kNoCudaKernel ? nullptr : std::get_if<CudaFusedShape>(&kernels[kernel].shape);
}

uint32_t CudaModule::add(CudaKernel kernel) {
  kernels.push_back(std::move(kernel));
  return static_cast<uint32_t>(kernels.size() - 1);
}

Result<CudaModule> make_cuda_module(const Plan& plan, std::string_view arch) {
  if (Status status = check(plan); !status) return tl::unexpected(status.error());
  CudaModule module(plan);
  const CudaStateKernel states(plan);
  add_prelude(plan, module);
  if (Status status = add_fused_kernels(plan, arch, module); !status) {
    return tl::unexpected(status.error());
  }
  add_loop_kernels(plan, module);
  add_scan_kernels(plan, module);
  add_recurrence_kernels(plan, module);
  add_sequence_kernels(plan, module);
  add_total_kernel(plan, module);
  states.add_to(module);
  add_elementwise_kernels(plan, states, module);
  return module;
}

Result<std::string> emit_cuda(const Plan& plan, std::string_view arch) {
  return make_cuda_module(plan, arch).map([](CudaModule&& module) {
    return std::move(module.source);
  });
}

}  // namespace rnnc
