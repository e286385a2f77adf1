#include "runtime/cpu/gemm.h"

#include <algorithm>

namespace rnnc::cpu {
namespace {

template <typename T>
constexpr int64_t kLine = 64 / sizeof(T);

template <typename T>
void pack_rows_of(int64_t width, int64_t k, std::span<const std::byte* const> rows, T* panel) {
  const auto columns = static_cast<int64_t>(rows.size());
  const auto source = [&](int64_t j) { return reinterpret_cast<const T*>(rows[j]); };
  // Eight rows of the weight at a time: few enough for the processor to read ahead in each.
  constexpr int64_t kRows = 8;
  int64_t j = 0;
  for (; j + kRows <= columns; j += kRows) {
    const auto first = rows.begin() + j;
    if (std::find(first, first + kRows, nullptr) != first + kRows) break;
    const T* sources[kRows];
    for (int64_t row = 0; row < kRows; ++row) sources[row] = source(j + row);
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t row = 0; row < kRows; ++row) panel[i * width + j + row] = sources[row][i];
    }
  }
  for (; j < width; ++j) {
    const T* row = j < columns ? source(j) : nullptr;
    for (int64_t i = 0; i < k; ++i) panel[i * width + j] = row == nullptr ? T{0} : row[i];
  }
}

template <typename T>
void pack_columns_of(int64_t width, int64_t k, const T* matrix, int64_t row_elements,
                     int64_t columns, T* panel) {
  for (int64_t i = 0; i < k; ++i) {
    std::copy_n(matrix + i * row_elements, columns, panel + i * width);
    std::fill(panel + i * width + columns, panel + (i + 1) * width, T{0});
  }
}

int64_t tiles_of(const CpuGemm& gemm, int64_t vectors, int64_t rows) {
  return ceil_div(rows, static_cast<int64_t>(gemm.tiles[vectors - 1].size()));
}

template <typename T>
void multiply(const CpuGemm& gemm, const PanelProduct& product) {
  const T* panel = reinterpret_cast<const T*>(product.panel);
  const T* left = reinterpret_cast<const T*>(product.left);
  T* out = reinterpret_cast<T*>(product.out);
  const std::vector<CpuGemmTile>& functions = gemm.tiles[product.vectors - 1];
  const int64_t width = product.vectors * gemm.lanes;
  const int64_t tiles = tiles_of(gemm, product.vectors, product.rows);
  const bool ahead = asks_ahead(gemm, product.vectors, product.rows);
  for (int64_t k = 0; k < product.k; k += gemm.block_k) {
    const int64_t terms = std::min(gemm.block_k, product.k - k);
    const T* block = panel + k * width;
    const T* next = block + terms * width;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t row = part_begin(product.rows, tiles, tile);
      const int64_t rows = part_begin(product.rows, tiles, tile + 1) - row;
      // With few tiles the block itself is what memory is busy with.
      const T* soon = ahead ? next + tile * terms * kLine<T> : block;
      functions[rows - 1](left + row * product.left_stride + k, product.left_stride, block,
                          out + row * product.out_stride, product.out_stride, terms,
                          product.columns, product.accumulate || k > 0, soon);
    }
  }
}

}  // namespace

bool asks_ahead(const CpuGemm& gemm, int64_t vectors, int64_t rows) {
  // A tile asks for a cache line for each term of its sums; so many ask for nearly all that the
  // panel's next block has.
  return tiles_of(gemm, vectors, rows) >= std::max<int64_t>(vectors - 1, 2);
}

int64_t packed_bytes(const CpuGemm& gemm, DType dtype, int64_t vectors, int64_t k) {
  return vectors * gemm.lanes * k * static_cast<int64_t>(size_of(dtype));
}

void pack_rows(const CpuGemm& gemm, DType dtype, std::span<const std::byte* const> rows,
               const PanelTarget& target) {
  const int64_t width = target.vectors * gemm.lanes;
  if (dtype == DType::f64) {
    pack_rows_of(width, target.k, rows, reinterpret_cast<double*>(target.panel));
  } else {
    pack_rows_of(width, target.k, rows, reinterpret_cast<float*>(target.panel));
  }
}

void pack_columns(const CpuGemm& gemm, DType dtype, const std::byte* matrix, int64_t row_elements,
                  int64_t columns, const PanelTarget& target) {
  const int64_t width = target.vectors * gemm.lanes;
  if (dtype == DType::f64) {
    pack_columns_of(width, target.k, reinterpret_cast<const double*>(matrix), row_elements, columns,
                    reinterpret_cast<double*>(target.panel));
  } else {
    pack_columns_of(width, target.k, reinterpret_cast<const float*>(matrix), row_elements, columns,
                    reinterpret_cast<float*>(target.panel));
  }
}

void multiply_panel(const CpuGemm& gemm, DType dtype, const PanelProduct& product) {
  if (dtype == DType::f64) {
    multiply<double>(gemm, product);
  } else {
    multiply<float>(gemm, product);
  }
}

}  // namespace rnnc::cpu
