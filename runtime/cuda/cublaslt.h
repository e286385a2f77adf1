/// cuBLASLt's functions, found when first needed, and a handle for one device.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <utility>

#include "ir/base/status.h"
#include "runtime/cuda/cuda_device.h"

namespace rnnc::cuda {

struct CublasLtLibrary {
  decltype(::cublasLtCreate)* create = nullptr;
  decltype(::cublasLtDestroy)* destroy = nullptr;
  decltype(::cublasLtGetStatusString)* status_string = nullptr;
  decltype(::cublasLtMatmulDescInit_internal)* init_operation = nullptr;
  decltype(::cublasLtMatmulDescSetAttribute)* set_operation = nullptr;
  decltype(::cublasLtMatrixLayoutInit_internal)* init_layout = nullptr;
  decltype(::cublasLtMatrixLayoutSetAttribute)* set_layout = nullptr;
  decltype(::cublasLtMatmulPreferenceInit_internal)* init_preference = nullptr;
  decltype(::cublasLtMatmulPreferenceSetAttribute)* set_preference = nullptr;
  decltype(::cublasLtMatmulAlgoGetHeuristic)* get_heuristic = nullptr;
  decltype(::cublasLtMatmulAlgoCheck)* check_algorithm = nullptr;
  decltype(::cublasLtMatmul)* matmul = nullptr;

  Status check(cublasStatus_t status, const char* what) const {
    if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
      return {};
    return fail("cuBLASLt failed while {}: {}", what, status_string(status));
  }
};

/// The library and a handle on a device.
class CublasLt {
 public:
  /// `device` is the current one.
  static Result<std::unique_ptr<CublasLt>> create(const CudaDevice& device);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  const CublasLtLibrary& library() const { return library_; }
  cublasLtHandle_t handle() const { return handle_; }
  const CudaDevice& device() const { return device_; }

 private:
  CublasLt(const CublasLtLibrary& library, CudaDevice device)
      : library_(library), device_(std::move(device)) {}
  const CublasLtLibrary& library_;
  CudaDevice device_;
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace rnnc::cuda
