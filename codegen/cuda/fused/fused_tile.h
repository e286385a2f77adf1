/// How the blocks of a fused launch share its work; the template arguments of fused.cuh.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// What a fused launch multiplies.
struct FusedWork {
  struct Product {
    int64_t k = 0;
    int64_t members = 1;
  };
  DType dtype = DType::f32;
  bool tf32 = false;
  int64_t batch = 1;
  int64_t segments = 1;        // of a row, which no block crosses
  int64_t segment_length = 1;  // elements
  int64_t results = 1;         // of products, per element
  int64_t instances = 1;       // launches side by side, as expected
  std::vector<Product> products;

  bool tensor_cores() const { return dtype != DType::f32 || tf32; }
  int64_t k_bytes(const Product& product) const {
    return product.k * static_cast<int64_t>(size_of(dtype));
  }
};

struct FusedTile {
  int64_t units = 0;  // elements of a row; a power of two
  int64_t rows = 0;   // of the batch
  int64_t gates = 0;  // results of the elements, filled up to whole tiles
  int64_t warp_gates = 1;
  int64_t warp_rows = 1;
  int64_t warp_parts = 1;
  int64_t lane_parts = 1;    // of a warp; 2 in exact products only
  int64_t slab_bytes = 128;  // along k; a power of two
  int64_t slabs = 1;         // of all products together
  int64_t weight_slabs = 1;
  int64_t left_slabs = 1;
  /// With two, the next launch's copies of weights begin while this one runs.
  int64_t blocks_per_multiprocessor = 1;

  int64_t threads() const { return 32 * warp_gates * warp_rows * warp_parts; }
  /// Sums in a thread's registers.
  int64_t thread_sums() const { return gates * rows * warp_parts * lane_parts / threads(); }
  /// Tiles of a warp's gates, and of its rows, in exact products: a lane reads one row of each.
  int64_t lane_tiles() const;
  /// Bytes from a row of a slab to the next.
  int64_t pitch(bool tensor_cores) const;
  int64_t shared_bytes(bool tensor_cores) const;
  /// Of a row of the batch, of the batch.
  int64_t tiles(const FusedWork& work) const;
  int64_t row_tiles(const FusedWork& work) const;
};

/// What a block may have on GPUs of an architecture, such as "sm_90".
int64_t most_shared_bytes(std::string_view arch);

/// The fastest by a small model of an H200, with as much shared memory as there is.
FusedTile choose_fused_tile(const FusedWork& work, int64_t most_shared_bytes);

}  // namespace rnnc
