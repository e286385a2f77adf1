/// Loop launches as CUDA kernels: which launches share one, and its code.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/cuda/device/kernel_abi.h"
#include "ir/plan/plan.h"

namespace rnnc {

class CudaLoopKernels {
 public:
  /// Of all loop launches. Knows them by their addresses: `plan` stays where it is as long as this
  /// is asked.
  explicit CudaLoopKernels(const Plan& plan);

  /// Index of the launch's shape.
  uint32_t of(const LoopLaunch& launch) const { return index_.at(&launch); }

  const std::vector<CudaLoopShape>& shapes() const { return shapes_; }
  /// CUDA C++ of all kernels, to stand behind the prelude; empty if there are none.
  const std::string& code() const { return code_; }

 private:
  std::vector<CudaLoopShape> shapes_;
  std::unordered_map<const void*, uint32_t> index_;
  std::string code_;
};

}  // namespace rnnc
