/// A plan's kernels as machine code on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <string>
#include <vector>

#include "codegen/cuda/device/kernel_abi.h"
#include "codegen/cuda/elementwise/loop_kernels.h"
#include "codegen/cuda/elementwise/state_kernel.h"
#include "codegen/cuda/fused/fused_kernels.h"
#include "codegen/cuda/persistent/recurrence_kernels.h"
#include "runtime/cuda/cuda_backend.h"

namespace rnnc {

class LoadedKernels {
 public:
  /// From the cache, or through NVRTC. Everything is on the device afterwards, so that launches
  /// load nothing. `plan` outlives this. Not to be used if there is a `refusal`.
  static Result<LoadedKernels> load(const Plan& plan, const CudaContext& context);
  LoadedKernels(LoadedKernels&& other) noexcept;
  LoadedKernels& operator=(LoadedKernels&&) = delete;
  ~LoadedKernels();

  /// Why the device should not run the recurrences, for people; empty: it can.
  const std::string& refusal() const { return refusal_; }

  template <typename Shape>
  struct Loaded {
    cudaKernel_t handle = nullptr;
    Shape shape;
  };
  /// By the plan's index; no handle where no elementwise launch has the kernel.
  const std::vector<Loaded<CudaKernelShape>>& elementwise() const { return elementwise_; }
  /// By the shapes' index in `fused()`, `loops()` and `recurrences()`.
  const std::vector<Loaded<CudaFusedShape>>& fused_kernels() const { return fused_kernels_; }
  const std::vector<Loaded<CudaLoopShape>>& loop_kernels() const { return loop_kernels_; }
  const std::vector<Loaded<CudaRecurrenceShape>>& recurrence_kernels() const {
    return recurrence_kernels_;
  }
  const CudaFusedKernels& fused() const { return fused_; }
  const CudaLoopKernels& loops() const { return loops_; }
  const CudaRecurrenceKernels& recurrences() const { return recurrences_; }
  const CudaStateKernel& states() const { return states_; }
  cudaKernel_t state_kernel() const { return state_kernel_; }  // null: there are no such launches

  cudaKernel_t set_frame() const { return set_frame_; }
  cudaKernel_t end_chunk() const { return end_chunk_; }
  /// Of sequence.cuh, for elements of this size; only where the plan has such launches.
  cudaKernel_t reverse(DType dtype) const { return reverse_[size_of(dtype) == 4]; }
  cudaKernel_t transpose(DType dtype) const { return transpose_[size_of(dtype) == 4]; }
  cudaKernel_t mask() const { return mask_; }
  cudaKernel_t split() const { return split_; }

 private:
  LoadedKernels(const Plan& plan, std::string_view arch)
      : fused_(plan, arch), loops_(plan), recurrences_(plan), states_(plan) {}
  Result<cudaKernel_t> find(const std::string& name) const;
  Status find_elementwise(const Plan& plan);
  Status find_fused_and_loops();
  Status find_recurrences(const CudaDevice& device);
  Result<std::string> refuse(cudaKernel_t kernel, const CudaRecurrenceShape& shape,
                             const CudaDevice& device) const;
  Status find_own(const Plan& plan);

  cudaLibrary_t library_ = nullptr;
  CudaFusedKernels fused_;
  CudaLoopKernels loops_;
  CudaRecurrenceKernels recurrences_;
  CudaStateKernel states_;
  std::vector<Loaded<CudaKernelShape>> elementwise_;
  std::vector<Loaded<CudaFusedShape>> fused_kernels_;
  std::vector<Loaded<CudaLoopShape>> loop_kernels_;
  std::vector<Loaded<CudaRecurrenceShape>> recurrence_kernels_;
  cudaKernel_t state_kernel_ = nullptr;
  cudaKernel_t set_frame_ = nullptr;
  cudaKernel_t end_chunk_ = nullptr;
  std::string refusal_;
  std::array<cudaKernel_t, 2> reverse_ = {};    // of 2-byte elements, of 4-byte ones
  std::array<cudaKernel_t, 2> transpose_ = {};  // likewise
  cudaKernel_t mask_ = nullptr;
  cudaKernel_t split_ = nullptr;
};

}  // namespace rnnc
