/// Modules with kernels of one kind, and what tests ask of them.
#pragma once

#include <algorithm>
#include <vector>

#include "codegen/cuda/device/cuda_module.h"
#include "codegen/cuda/fused/fused_kernels.h"

namespace rnnc::test {

/// With the plan's fused kernels alone.
inline CudaModule fused_module(const Plan& plan) {
  CudaModule module(plan);
  const Status added = add_fused_kernels(plan, kDefaultCudaArch, module);
  RNNC_CHECK(added.has_value(), "{}", added.error().message);
  return module;
}

/// Of a module's kernels of one kind, in order.
template <typename Shape>
std::vector<Shape> shapes(const CudaModule& module) {
  std::vector<Shape> result;
  for (const CudaKernel& kernel : module.kernels) {
    if (const auto* shape = std::get_if<Shape>(&kernel.shape)) result.push_back(*shape);
  }
  return result;
}

}  // namespace rnnc::test
