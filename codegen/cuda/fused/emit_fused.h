/// One fused launch's kernel as a CUDA C++ function.
#pragma once

#include <compare>
#include <set>
#include <string>
#include <vector>

#include "codegen/cuda/device/kernel_abi.h"
#include "codegen/cuda/fused/fused_tile.h"
#include "ir/plan/plan.h"

namespace rnnc {

/// A product of launches that share a kernel.
struct FusedProduct {
  int64_t k = 0;
  int64_t blocks = 1;
  uint32_t first = 0;  // among the kernel's arguments that are products, in order
  uint32_t members = 1;
  int left_copy = 0;  // bytes that may be copied at once
  int weight_copy = 0;
  friend auto operator<=>(const FusedProduct&, const FusedProduct&) = default;
};

struct FusedKernel {
  Kernel kernel;
  std::vector<FusedProduct> products;
  std::set<uint32_t> fixed;     // loaded arguments that no launch of a Step stage writes
  std::set<uint32_t> optional;  // written arguments that some launches have no array for
};

/// The function of that name, to stand behind fused.cuh.
std::string emit_fused_kernel(const FusedKernel& fused, const FusedWork& work,
                              const FusedTile& tile, const CudaFusedShape& shape,
                              std::string_view name);

}  // namespace rnnc
