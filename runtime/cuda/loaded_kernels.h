/// A plan's kernels as machine code on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <unordered_map>
#include <vector>

#include "codegen/cuda/kernel_abi.h"
#include "codegen/cuda/step_product.h"
#include "runtime/cuda/cuda_backend.h"

namespace rnnc {

class LoadedKernels {
 public:
  /// From the cache, or through NVRTC. Everything is on the device afterwards, so that launches
  /// load nothing. `plan` outlives this.
  static Result<LoadedKernels> load(const Plan& plan, const CudaContext& context);
  LoadedKernels(LoadedKernels&& other) noexcept;
  LoadedKernels& operator=(LoadedKernels&&) = delete;
  ~LoadedKernels();

  struct PlanKernel {
    cudaKernel_t handle = nullptr;
    CudaKernelShape shape;
  };
  const PlanKernel& of_plan(uint32_t index) const { return plan_kernels_[index]; }
  /// A product of a Step stage that rnnc has a kernel for, or null: the library does it.
  struct ProductKernel {
    cudaKernel_t handle = nullptr;
    StepProduct product;
  };
  const ProductKernel* of_product(const GemmLaunch& launch) const {
    const auto found = product_kernels_.find(&launch);
    return found == product_kernels_.end() ? nullptr : &found->second;
  }
  cudaKernel_t set_frame() const { return set_frame_; }
  cudaKernel_t end_chunk() const { return end_chunk_; }
  /// Of sequence.cuh, for elements of this size; only where the plan has such launches.
  cudaKernel_t reverse(DType dtype) const { return reverse_[size_of(dtype) == 4]; }
  cudaKernel_t transpose(DType dtype) const { return transpose_[size_of(dtype) == 4]; }
  cudaKernel_t mask() const { return mask_; }

 private:
  LoadedKernels() = default;
  Result<cudaKernel_t> find(const std::string& name) const;
  Status find_own(bool sequence_kernels);
  Status find_products(const Plan& plan);

  cudaLibrary_t library_ = nullptr;
  std::vector<PlanKernel> plan_kernels_;
  std::unordered_map<const GemmLaunch*, ProductKernel> product_kernels_;
  cudaKernel_t set_frame_ = nullptr;
  cudaKernel_t end_chunk_ = nullptr;
  std::array<cudaKernel_t, 2> reverse_ = {};    // of 2-byte elements, of 4-byte ones
  std::array<cudaKernel_t, 2> transpose_ = {};  // likewise
  cudaKernel_t mask_ = nullptr;
};

}  // namespace rnnc
