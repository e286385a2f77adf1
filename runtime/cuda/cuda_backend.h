/// What the CUDA backend's files share.
#pragma once

#include <memory>
#include <string>

#include "runtime/backend/backend.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/cuda_device.h"

namespace rnnc::cuda {

/// A device in use by one program. Outlives the program's executables.
struct CudaContext {
  CudaDevice device;
  std::string arch;    // "sm_90"
  bool graphs = true;  // CompileOptions::graphs
  DeviceAllocator allocator;
  KernelCache& cache;
  std::unique_ptr<CublasLt> lt;  // made when a plan first has a product
};

/// Compiles and loads the plan. The context's device is current.
Result<std::unique_ptr<Executable>> prepare_cuda_executable(Plan plan, CudaContext& context);

}  // namespace rnnc::cuda
