/// Products of a step in exact f32, which cuBLASLt is slow at for few rows (measured on an H200,
/// µs: 16 rows of 512 by 2048 columns 3.8 against 8.4, 16 of 1024 by 4096 7.7 against 16.0, 16 of
/// 2048 by 8192 32 against 63; 32 rows 5.3 against 9.9 and 14.3 against 16.9; 64 rows are no
/// better).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/plan.h"

namespace rnnc {

/// A kernel of the plan's translation unit. Parameters: const float* left, const float* weight,
/// float* out, int rows, int n, int k, int64_t left_stride, int64_t out_stride (in elements).
/// Blocks of a block-diagonal weight are the grid's z.
struct StepProduct {
  std::string name;
  uint32_t threads = 0;       // per block
  int64_t block_columns = 0;  // of the result, per blockIdx.x
  int64_t block_rows = 0;     // per blockIdx.y
  std::string definition;     // CUDA C++, after step_product.cuh
};

/// The kernel for a product of a Step stage; nothing where a library's is to be used.
std::optional<StepProduct> step_product(const Plan& plan, const GemmLaunch& launch);

}  // namespace rnnc
