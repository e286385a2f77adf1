#include "runtime/cpu/gemm.h"

#include <algorithm>
#include <cstring>

namespace rnnc::cpu {
namespace {

/// Bytes of a cache line.
constexpr int64_t kLine = 64;

using Floats [[gnu::vector_size(16)]] = float;
using Doubles [[gnu::vector_size(16)]] = double;

/// Rows, and columns, that are transposed at a time, in registers.
template <typename T>
constexpr int64_t kSquare = 16 / sizeof(T);

template <typename Vector, typename T>
Vector load(const T* values) {
  Vector vector;
  std::memcpy(&vector, values, sizeof vector);
  return vector;
}

template <typename Vector, typename T>
void store(Vector vector, T* values) {
  std::memcpy(values, &vector, sizeof vector);
}

/// Elements [i, i + kSquare) of as many rows become rows of `to`, which are `width` apart.
void transpose_square(const float* const* rows, int64_t i, int64_t width, float* to) {
  const auto a = load<Floats>(rows[0] + i);
  const auto b = load<Floats>(rows[1] + i);
  const auto c = load<Floats>(rows[2] + i);
  const auto d = load<Floats>(rows[3] + i);
  const Floats ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Floats cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Floats ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Floats cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store<Floats>(__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), to);
  store<Floats>(__builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7), to + width);
  store<Floats>(__builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), to + 2 * width);
  store<Floats>(__builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7), to + 3 * width);
}

void transpose_square(const double* const* rows, int64_t i, int64_t width, double* to) {
  const auto a = load<Doubles>(rows[0] + i);
  const auto b = load<Doubles>(rows[1] + i);
  store<Doubles>(__builtin_shufflevector(a, b, 0, 2), to);
  store<Doubles>(__builtin_shufflevector(a, b, 1, 3), to + width);
}

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
    int64_t i = 0;
    for (; i + kSquare<T> <= k; i += kSquare<T>) {
      for (int64_t row = 0; row < kRows; row += kSquare<T>) {
        transpose_square(sources + row, i, width, panel + i * width + j + row);
      }
    }
    for (; i < k; ++i) {
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
  const auto most = static_cast<int64_t>(gemm.tiles[vectors - 1].size());
  return rows <= most ? 1 : ceil_div(rows, most);  // a division takes as long as a small tile's row
}

/// A panel's block that so many bytes have room for stays in the first level cache.
constexpr int64_t kFirstLevelBytes = 24 << 10;
/// For each vector of weights and term, where they come from the second level cache.
constexpr double kSecondLevelCycles = 0.25;

/// Until a sum can be added to again: four on most processors, and what waits for other work.
constexpr double kSumCycles = 4.5;

/// Two multiply-adds and two loads a cycle. Zen 3 took within 10 % of that for most tiles.
double tile_cycles(int64_t rows, int64_t vectors) {
  const int64_t busy = std::max(ceil_div(rows * vectors, 2), ceil_div(rows + vectors, 2));
  return std::max(static_cast<double>(busy), kSumCycles);
}

/// Cache lines that a panel has for each term of the sums, which are so many bytes.
int64_t lines_of(int64_t term_bytes) {
  return ceil_div(term_bytes, kLine);
}

/// So many tiles ask for nearly all lines that the panel's next block has.
bool are_worth_it(int64_t lines, int64_t tiles) {
  return tiles >= std::max<int64_t>(lines - 1, 2);
}

/// What the tiles of a panel's block ask for: each a line for each term of its sums, of the block
/// behind or, behind the last, of the first.
class Requests {
 public:
  Requests(std::span<const std::byte> weights, int64_t lines, int64_t tiles) : weights_(weights) {
    if (!weights.empty() && are_worth_it(lines, tiles)) lines_ = lines;
  }
  void enter(const std::byte* block, const std::byte* block_end, int64_t terms) {
    block_ = block;
    if (lines_ == 0) return;
    const std::byte* const end = weights_.data() + weights_.size();
    next_ = block_end == end ? weights_.data() : block_end;
    bytes_ = terms * kLine;
    last_ = std::min(end, next_ + lines_ * bytes_) - bytes_;
  }
  /// With few tiles the block itself is what memory is busy with.
  const std::byte* of_tile(int64_t tile) const {
    if (lines_ == 0) return block_;
    const std::byte* const from = next_ + tile * bytes_;
    return from <= last_ ? from : block_;
  }

 private:
  std::span<const std::byte> weights_;
  int64_t lines_ = 0;  // of each term; 0: nothing is asked for
  const std::byte* block_ = nullptr;
  const std::byte* next_ = nullptr;
  int64_t bytes_ = 0;  // asked for by a tile
  const std::byte* last_ = nullptr;
};

template <typename T>
void multiply(const CpuGemm& gemm, const PanelProduct& product) {
  const T* left = reinterpret_cast<const T*>(product.left);
  T* out = reinterpret_cast<T*>(product.out);
  const std::vector<CpuGemmTile>& functions = gemm.tiles[product.vectors - 1];
  const auto term_bytes = static_cast<int64_t>(product.vectors * gemm.lanes * sizeof(T));
  const int64_t tiles = tiles_of(gemm, product.vectors, product.rows);
  const EqualParts tile_rows(product.rows, tiles);
  Requests requests(product.weights, lines_of(term_bytes), tiles);
  for (int64_t k = 0; k < product.k; k += gemm.block_k) {
    const int64_t terms = std::min(gemm.block_k, product.k - k);
    const std::byte* block = product.panel + k * term_bytes;
    requests.enter(block, block + terms * term_bytes, terms);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t row = tile_rows.begin(tile);
      functions[tile_rows.count(tile) - 1](
          left + row * product.left_stride + k, product.left_stride, block,
          out + row * product.out_stride, product.out_stride, terms, product.columns,
          product.accumulate || k > 0, requests.of_tile(tile));
    }
  }
}

}  // namespace

bool asks_ahead(const CpuGemm& gemm, DType dtype, int64_t vectors, int64_t rows) {
  return are_worth_it(lines_of(packed_bytes(gemm, dtype, vectors, 1)),
                      tiles_of(gemm, vectors, rows));
}

double term_cycles(const CpuGemm& gemm, const Panels& panels, int64_t rows) {
  double cycles = 0;
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int64_t vectors = panels.vectors_of(panel);
    const int64_t tiles = tiles_of(gemm, vectors, rows);
    const EqualParts parts(rows, tiles);
    for (int64_t tile = 0; tile < tiles; ++tile) cycles += tile_cycles(parts.count(tile), vectors);
  }
  return cycles;
}

double term_cycles(const CpuGemm& gemm, DType dtype, const PanelShape& shape,
                   const Panels& panels) {
  double cycles = term_cycles(gemm, panels, shape.rows);
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int64_t vectors = panels.vectors_of(panel);
    const int64_t block = packed_bytes(gemm, dtype, vectors, std::min(shape.k, gemm.block_k));
    const int64_t fetches =
        block > kFirstLevelBytes ? tiles_of(gemm, vectors, shape.rows) : int64_t{1};
    cycles += static_cast<double>(fetches * vectors) * kSecondLevelCycles;
  }
  return cycles;
}

Panels best_panels(const CpuGemm& gemm, DType dtype, const PanelShape& shape) {
  Panels best(shape.vectors);
  if (has_large_tiles(gemm)) return best;
  double least = term_cycles(gemm, dtype, shape, best);
  for (int64_t widest = kMostPanelVectors - 1; widest > 0; --widest) {
    const Panels panels(shape.vectors, widest);
    const double cycles = term_cycles(gemm, dtype, shape, panels);
    if (cycles >= least) continue;
    least = cycles;
    best = panels;
  }
  return best;
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
