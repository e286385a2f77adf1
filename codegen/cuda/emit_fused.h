/// One fused launch's kernel as a CUDA C++ function.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "codegen/cuda/fused_tile.h"
#include "codegen/cuda/kernel_abi.h"
#include "ir/plan.h"

namespace rnnc {

/// What launches that share a kernel have in common, beside the elementwise kernel.
struct FusedProduct {
  int64_t k = 0;
  int64_t blocks = 1;
  uint32_t first = 0;  // among the kernel's arguments that are products, in order
  uint32_t members = 1;
  int left_copy = 0;  // bytes that may be copied at once
  int weight_copy = 0;
  friend auto operator<=>(const FusedProduct&, const FusedProduct&) = default;
};

/// The function `shape.name`, to stand behind fused.cuh.
std::string emit_fused_kernel(const Kernel& kernel, const std::vector<FusedProduct>& products,
                              const FusedWork& work, const FusedTile& tile,
                              const CudaFusedShape& shape);

}  // namespace rnnc
