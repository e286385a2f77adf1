#include "runtime/cpu/gemm.h"

#include <algorithm>

namespace rnnc {
namespace {

/// Elements of k summed before they are added to the result: a panel's part stays in the second
/// level cache, and long sums lose less to rounding.
constexpr int64_t kBlockK = 256;
/// Rows whose left operand stays in the second level cache while the panels pass by.
constexpr int64_t kBlockRows = 96;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// The start of part `index` of `parts` nearly equal parts of [0, count).
int64_t part_begin(int64_t count, int64_t parts, int64_t index) {
  return count * index / parts;
}

template <typename T>
void pack_typed(const CpuGemm& gemm, const GemmShape& shape, const T* weight, T* packed,
                int64_t panel) {
  const int64_t width = gemm.panel_columns;
  const int64_t first = panel * width;
  const int64_t columns = std::min(width, shape.n - first);
  T* target = packed + panel * width * shape.k;
  if (columns < width) std::fill(target, target + width * shape.k, T{0});
  if (shape.transposed) {
    for (int64_t i = 0; i < shape.k; ++i) {
      std::copy_n(weight + i * shape.n + first, columns, target + i * width);
    }
    return;
  }
  // Eight rows of the weight at a time: few enough for the processor to read ahead in each.
  constexpr int64_t kRows = 8;
  int64_t j = 0;
  for (; j + kRows <= columns; j += kRows) {
    const T* source = weight + (first + j) * shape.k;
    for (int64_t i = 0; i < shape.k; ++i) {
      for (int64_t row = 0; row < kRows; ++row) {
        target[i * width + j + row] = source[row * shape.k + i];
      }
    }
  }
  for (; j < columns; ++j) {
    const T* source = weight + (first + j) * shape.k;
    for (int64_t i = 0; i < shape.k; ++i) target[i * width + j] = source[i];
  }
}

/// Rows [begin, end) of one panel's columns.
template <typename T>
void multiply_panel(const CpuGemm& gemm, const GemmShape& shape, const GemmOperands& operands,
                    int64_t panel, int64_t begin, int64_t end) {
  const int64_t width = gemm.panel_columns;
  const int64_t columns = std::min(width, shape.n - panel * width);
  const T* weights = static_cast<const T*>(operands.packed) + panel * width * shape.k;
  const T* left = static_cast<const T*>(operands.left);
  T* out = static_cast<T*>(operands.out) + panel * width;
  const int64_t rows = end - begin;
  const int64_t tiles = ceil_div(rows, static_cast<int64_t>(gemm.tiles.size()));
  for (int64_t k = 0; k < shape.k; k += kBlockK) {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t row = begin + part_begin(rows, tiles, tile);
      const int64_t tile_rows = begin + part_begin(rows, tiles, tile + 1) - row;
      gemm.tiles[tile_rows - 1](left + row * operands.left_stride + k, operands.left_stride,
                                weights + k * width, out + row * operands.out_stride,
                                operands.out_stride, std::min(kBlockK, shape.k - k), columns,
                                k > 0);
    }
  }
}

}  // namespace

int64_t panel_count(const CpuGemm& gemm, const GemmShape& shape) {
  return ceil_div(shape.n, gemm.panel_columns);
}

size_t packed_bytes(const CpuGemm& gemm, const GemmShape& shape) {
  return panel_count(gemm, shape) * gemm.panel_columns * shape.k * size_of(shape.dtype);
}

void pack_panel(const CpuGemm& gemm, const GemmShape& shape, const void* weight, void* packed,
                int64_t panel) {
  if (shape.dtype == DType::f64) {
    pack_typed(gemm, shape, static_cast<const double*>(weight), static_cast<double*>(packed),
               panel);
  } else {
    pack_typed(gemm, shape, static_cast<const float*>(weight), static_cast<float*>(packed), panel);
  }
}

int64_t multiply_units(const CpuGemm& gemm, const GemmShape& shape, int64_t rows) {
  return ceil_div(rows, kBlockRows) * panel_count(gemm, shape);
}

void multiply_unit(const CpuGemm& gemm, const GemmShape& shape, const GemmOperands& operands,
                   int64_t unit) {
  const int64_t panels = panel_count(gemm, shape);
  const int64_t blocks = ceil_div(operands.rows, kBlockRows);
  const int64_t begin = part_begin(operands.rows, blocks, unit / panels);
  const int64_t end = part_begin(operands.rows, blocks, unit / panels + 1);
  if (shape.dtype == DType::f64) {
    multiply_panel<double>(gemm, shape, operands, unit % panels, begin, end);
  } else {
    multiply_panel<float>(gemm, shape, operands, unit % panels, begin, end);
  }
}

}  // namespace rnnc
