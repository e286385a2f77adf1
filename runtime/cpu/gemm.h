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

/// One thread's part of work that `threads` threads share.
struct Share {
  int thread = 0;
  int threads = 1;
  int64_t begin(int64_t units) const { return units * thread / threads; }
  int64_t end(int64_t units) const { return units * (thread + 1) / threads; }
};

size_t packed_bytes(const CpuGemm& gemm, const GemmShape& shape);
void pack_weights(const CpuGemm& gemm, const GemmShape& shape, const void* weight, void* packed,
                  const Share& share);

struct GemmOperands {
  const void* left = nullptr;
  int64_t left_stride = 0;  // elements
  const void* packed = nullptr;
  void* out = nullptr;
  int64_t out_stride = 0;
  int64_t rows = 0;
};
void multiply(const CpuGemm& gemm, const GemmShape& shape, const GemmOperands& operands,
              const Share& share);
/// In how many parts `multiply` can be shared out.
int64_t multiply_units(const CpuGemm& gemm, const GemmShape& shape, int64_t rows);

}  // namespace rnnc
