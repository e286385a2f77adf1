/// cuBLASLt's functions, found when first needed, and a handle for one device.
#pragma once

#include <cublasLt.h>

#include <memory>

#include "ir/base/status.h"

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

/// The library and a handle on the device that was current when it was made.
class CublasLt {
 public:
  static Result<std::unique_ptr<CublasLt>> create();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  const CublasLtLibrary& library() const { return library_; }
  cublasLtHandle_t handle() const { return handle_; }

 private:
  explicit CublasLt(const CublasLtLibrary& library) : library_(library) {}
  const CublasLtLibrary& library_;
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace rnnc::cuda
