/// Matrix products with packed weights: out[row, 0:n] = sum over k of left[row, 0:k] * weight.
///
/// Weights are packed once per set of params, in panels of some vectors of columns: a panel holds,
/// for every k, the weights of its columns, with zeros past the end. The sum over k runs in
/// order, in blocks whose sums are then added, whatever the number of rows and threads: a row's
/// bits depend on that row alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codegen/cpu/cpu_code.h"
#include "ir/base/arithmetic.h"
#include "ir/base/dtype.h"

namespace rnnc::cpu {

/// Nearly equal parts of [0, count), the greater first. Their places take no division.
class EqualParts {
 public:
  constexpr EqualParts() = default;
  constexpr EqualParts(int64_t count, int64_t parts)
      : least_(parts == 0 ? 0 : count / parts), greater_(count - least_ * parts) {}

  /// Of the one behind the last: the end.
  constexpr int64_t begin(int64_t index) const {
    return least_ * index + (index < greater_ ? index : greater_);
  }
  constexpr int64_t count(int64_t index) const { return least_ + (index < greater_ ? 1 : 0); }

 private:
  int64_t least_ = 0;    // elements of a part
  int64_t greater_ = 0;  // parts with one more
};

/// Vectors of columns divided into panels of at most `widest`: as few as possible, as equal as
/// possible.
class Panels {
 public:
  Panels() = default;
  explicit Panels(int64_t vectors, int64_t widest = kMostPanelVectors)
      : vectors_(vectors), count_(ceil_div(vectors, widest)), parts_(vectors, count_) {}

  int64_t vectors() const { return vectors_; }
  int64_t count() const { return count_; }
  /// First vector of a panel; of the one behind the last, the end.
  int64_t begin(int64_t panel) const { return parts_.begin(panel); }
  int64_t vectors_of(int64_t panel) const { return parts_.count(panel); }

 private:
  int64_t vectors_ = 0;
  int64_t count_ = 0;
  EqualParts parts_;
};

/// Whether tiles of the widest panels keep the multiply-adds busy.
inline bool has_large_tiles(const CpuGemm& gemm) {
  return gemm.tiles[kMostPanelVectors - 1].size() >= kMostPanelVectors;
}

/// What a product's panels depend on.
struct PanelShape {
  int64_t vectors = 0;  // of columns
  int64_t rows = 0;     // at a time
  int64_t k = 0;
};
/// The panels that such a product is fastest with.
Panels best_panels(const CpuGemm& gemm, DType dtype, const PanelShape& shape);

/// Cycles for a term of the sums, roughly, of all rows and panels, with two multiply-adds in each:
/// of the arithmetic alone, and with the weights' way to the first level cache.
double term_cycles(const CpuGemm& gemm, const Panels& panels, int64_t rows);
double term_cycles(const CpuGemm& gemm, DType dtype, const PanelShape& shape, const Panels& panels);

/// Bytes of so many vectors in panels, which lie one after another.
int64_t packed_bytes(const CpuGemm& gemm, DType dtype, int64_t vectors, int64_t k);

/// No host's panels have more columns.
inline constexpr int64_t kMostPanelColumns = 64;

/// Where a panel is to be packed.
struct PanelTarget {
  int64_t vectors = 0;
  int64_t k = 0;
  std::byte* panel = nullptr;
};
/// Column j of the panel becomes `rows[j]`, k elements each; null, and those past the end: zeros.
void pack_rows(const CpuGemm& gemm, DType dtype, std::span<const std::byte* const> rows,
               const PanelTarget& target);
/// Column j of the panel becomes column j of `matrix`, [k, row_elements] row-major.
void pack_columns(const CpuGemm& gemm, DType dtype, const std::byte* matrix, int64_t row_elements,
                  int64_t columns, const PanelTarget& target);

struct PanelProduct {
  const std::byte* left = nullptr;
  int64_t left_stride = 0;  // elements
  const std::byte* panel = nullptr;
  std::byte* out = nullptr;
  int64_t out_stride = 0;  // elements
  int64_t rows = 0;
  int64_t k = 0;
  int64_t vectors = 0;  // of the panel
  int64_t columns = 0;  // of them, those of the result
  bool accumulate = false;
  /// Those among which the panel lies. Nothing else is asked for ahead: a request that hits no page
  /// takes some thirty cycles on Zen 1, each time. Behind the last block comes the first.
  std::span<const std::byte> weights = {};
};

/// Whether products of so many rows ask for the panel behind theirs, so that it should come next.
bool asks_ahead(const CpuGemm& gemm, DType dtype, int64_t vectors, int64_t rows);

/// out[row, 0:columns] = left[row, 0:k] * panel, added to what is there if `accumulate`.
void multiply_panel(const CpuGemm& gemm, DType dtype, const PanelProduct& product);

/// Rows whose left operand stays in the second level cache while panels pass by.
inline constexpr int64_t kRowsPerBlock = 96;

}  // namespace rnnc::cpu
