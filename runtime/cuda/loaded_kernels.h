/// A plan's kernels as machine code on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "codegen/cuda/device/cuda_module.h"
#include "runtime/cuda/cuda_backend.h"

namespace rnnc::cuda {

class LoadedKernels {
 public:
  /// From the cache, or through NVRTC. Everything is on the device afterwards, so that launches
  /// load nothing. Not to be used if there is a `refusal`.
  static Result<LoadedKernels> load(const Plan& plan, const CudaContext& context);

  /// Why the device should not run the recurrences, for people; empty: it can.
  const std::string& refusal() const { return refusal_; }
  /// Why others may be faster, for people.
  const std::string& doubt() const { return doubt_; }

  const CudaModule& module() const { return module_; }
  /// By the module's index.
  cudaKernel_t operator[](uint32_t kernel) const { return kernels_[kernel]; }

 private:
  struct Unload {
    void operator()(cudaLibrary_t library) const { cudaLibraryUnload(library); }
  };

  explicit LoadedKernels(CudaModule module) : module_(std::move(module)) {}
  Status load(const std::string& code);
  Status find(const CudaKernel& kernel, const CudaDevice& device);
  Status prepare(cudaKernel_t kernel, const CudaRecurrenceShape& shape, const CudaDevice& device);

  CudaModule module_;
  std::unique_ptr<std::remove_pointer_t<cudaLibrary_t>, Unload> library_;
  std::vector<cudaKernel_t> kernels_;
  std::string refusal_;
  std::string doubt_;
};

}  // namespace rnnc::cuda
