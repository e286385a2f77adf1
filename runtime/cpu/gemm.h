/// Matrix products with packed weights: out[row, 0:n] = sum over k of left[row, 0:k] * weight.
///
/// Weights are packed once per set of params, in panels of as many columns as a tile has: panel p
/// holds, for every k, the weights of columns p * c to (p + 1) * c, with zeros past the end. The
/// sum over k runs in order, in blocks whose sums are then added, whatever the number of rows and
/// threads: a row's bits depend on that row alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codegen/cpu/cpu_code.h"
#include "ir/dtype.h"

namespace rnnc {

/// A weight matrix, [n, k] row-major, or [k, n] when `transposed`.
struct GemmShape {
  DType dtype = DType::f32;
  int64_t n = 0;
  int64_t k = 0;
  bool transposed = false;
};

size_t packed_bytes(const CpuGemm& gemm, const GemmShape& shape);
int64_t panel_count(const CpuGemm& gemm, const GemmShape& shape);
void pack_panel(const CpuGemm& gemm, const GemmShape& shape, const void* weight, void* packed,
                int64_t panel);

struct GemmOperands {
  const void* left = nullptr;
  int64_t left_stride = 0;  // elements
  const void* packed = nullptr;
  void* out = nullptr;
  int64_t out_stride = 0;
  int64_t rows = 0;
};

/// A product consists of units, a panel's columns of some rows each, which may be computed in any
/// order and on any thread.
int64_t multiply_units(const CpuGemm& gemm, const GemmShape& shape, int64_t rows);
void multiply_unit(const CpuGemm& gemm, const GemmShape& shape, const GemmOperands& operands,
                   int64_t unit);

}  // namespace rnnc
