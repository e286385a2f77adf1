/// Fused launches as CUDA kernels: which launches share one, with which grid it is launched, and
/// its code. Products of Step stages for few rows are fused launches without elementwise work.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "codegen/cuda/cuda_code.h"
#include "codegen/cuda/device/kernel_abi.h"
#include "ir/plan/plan.h"

namespace rnnc {

class CudaFusedKernels {
 public:
  /// Of all fused launches and products of Step stages, for GPUs of an architecture. Knows launches
  /// by their addresses: `plan` stays where it is as long as this is asked.
  explicit CudaFusedKernels(const Plan& plan, std::string_view arch = kDefaultCudaArch);

  /// Whether the plan's launches fit a kernel; if not, nothing else may be asked.
  const Status& status() const { return status_; }

  /// What a launch's parameters are made of.
  struct Parameters {
    uint32_t shape = 0;  // index; launches with the same one may be instances of one launch
    /// Of each array that the shape's kernel loads, of each that it stores, and then `left` and
    /// `weight` of each product. Without a buffer where other launches of the shape store something
    /// that this one does not. `CudaAccess::per_step` of weights is 0.
    std::vector<Access> accesses;
  };
  const Parameters& of(const FusedLaunch& launch) const { return parameters_.at(&launch); }
  /// Null: not done by a kernel of the unit but by a library.
  const Parameters* of(const GemmLaunch& launch) const;

  const std::vector<CudaFusedShape>& shapes() const { return shapes_; }
  /// CUDA C++ of all kernels, to stand behind the prelude; empty if there are none.
  const std::string& code() const { return code_; }

 private:
  Status status_;
  std::vector<CudaFusedShape> shapes_;
  std::unordered_map<const void*, Parameters> parameters_;
  std::string code_;
};

}  // namespace rnnc
