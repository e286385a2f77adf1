/// A plan's kernels as machine code on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "codegen/cuda/kernel_abi.h"
#include "runtime/cuda/cuda_backend.h"

namespace rnnc {

class LoadedKernels {
 public:
  /// From the cache, or through NVRTC. Everything is on the device afterwards, so that launches
  /// load nothing.
  static Result<LoadedKernels> load(const Plan& plan, const CudaContext& context);
  LoadedKernels(LoadedKernels&& other) noexcept;
  LoadedKernels& operator=(LoadedKernels&&) = delete;
  ~LoadedKernels();

  struct PlanKernel {
    cudaKernel_t handle = nullptr;
    CudaKernelShape shape;
  };
  const PlanKernel& of_plan(uint32_t index) const { return plan_kernels_[index]; }
  cudaKernel_t set_frame() const { return set_frame_; }
  cudaKernel_t end_chunk() const { return end_chunk_; }

 private:
  LoadedKernels() = default;
  Result<cudaKernel_t> find(const std::string& name) const;

  cudaLibrary_t library_ = nullptr;
  std::vector<PlanKernel> plan_kernels_;
  cudaKernel_t set_frame_ = nullptr;
  cudaKernel_t end_chunk_ = nullptr;
};

}  // namespace rnnc
