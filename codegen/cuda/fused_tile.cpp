// 1. Try every number of elements (powers of two) and of rows of a tile whose sums fit a block.
// 2. Split the tile over 8 warps: rows and gates as far as each warp still reads little for its
//    sums, then k. Fewer warps where k is too short for all.
// 3. Take as many stages of the operands as fit: all of both, all weights and a ring for the rest,
//    or two rings.
// 4. Of all tiles take the one with the least predicted time.
#include "codegen/cuda/fused_tile.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

namespace rnnc {
namespace {

constexpr int64_t kMostUnits = 64;
constexpr int64_t kMostRows = 64;
constexpr int64_t kMostWarps = 8;
constexpr int64_t kSharedBytes = 99 * 1024;  // what every GPU from sm_80 on gives a block
constexpr int64_t kFewestLeftStages = 3;     // of a ring beside resident weights

// The model: an H200, in nanoseconds.
constexpr double kMultiprocessors = 132;
constexpr double kBytes = 40;           // per multiprocessor from the second-level cache
constexpr double kExactProducts = 190;  // multiply-adds per multiprocessor
constexpr double kTf32Products = 450;
constexpr double kHalfProducts = 900;
constexpr double kSharedMemory = 220;  // bytes per multiprocessor
constexpr double kUnhidden = 0.3;      // of the lesser of arithmetic and reads of shared memory
constexpr double kBlock = 150;         // a block's start and end, beside others

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t round_up(int64_t a, int64_t to) {
  return ceil_div(a, to) * to;
}

int64_t longest_k_bytes(const FusedWork& work) {
  int64_t longest = 0;
  for (const FusedWork::Product& product : work.products) {
    longest = std::max(longest, work.k_bytes(product));
  }
  return longest;
}

int64_t stages_of(const FusedWork& work, int64_t stage_bytes) {
  int64_t stages = 0;
  for (const FusedWork::Product& product : work.products) {
    stages += ceil_div(work.k_bytes(product), stage_bytes);
  }
  return stages;
}

/// Step 2. Whether the tile is one that warps can share.
bool split_over_warps(const FusedWork& work, FusedTile& tile) {
  const bool tensor_cores = work.tensor_cores();
  if (tensor_cores) {
    tile.warp_rows = std::max<int64_t>(1, tile.rows / 32);
    if (tile.rows >= 32) {
      tile.warp_gates = tile.gates % 64 == 0 && tile.gates >= 128 ? 4
                        : tile.gates % 32 == 0                    ? 2
                                                                  : 1;
    }
  } else {
    tile.warp_rows = std::max<int64_t>(1, tile.rows / 16);
  }
  // A part takes pieces of 64 bytes on tensor cores, else of 16.
  const int64_t piece = tensor_cores ? 64 : 16;
  const int64_t pieces = ceil_div(longest_k_bytes(work), piece);
  const int64_t most_parts = kMostWarps / (tile.warp_gates * tile.warp_rows);
  if (most_parts < 1) return false;
  tile.warp_parts =
      std::min(most_parts, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(pieces))));
  // Each part has at least a piece per stage; exact products two, between barriers.
  const int64_t least = tile.warp_parts * piece * (tensor_cores ? 1 : 2);
  tile.slabs = std::max<int64_t>(1, std::min(least, round_up(longest_k_bytes(work), 128)) / 128);
  return tile.thread_sums() <= (tensor_cores ? 64 : 32);
}

/// Step 3. Whether there is room.
bool fit_stages(const FusedWork& work, FusedTile& tile) {
  const int64_t bytes = tile.stage_bytes();
  tile.stages = stages_of(work, bytes);
  const int64_t all_weights = tile.stages * tile.gates * bytes;
  const int64_t left = tile.rows * bytes;
  const int64_t beside_weights = (kSharedBytes - all_weights) / left;
  if (beside_weights >= std::min(tile.stages, kFewestLeftStages)) {
    tile.weight_stages = tile.stages;
    tile.left_stages = std::min(tile.stages, beside_weights);
  } else {
    tile.weight_stages = std::min(tile.stages, kSharedBytes / ((tile.gates + tile.rows) * bytes));
    tile.left_stages = tile.weight_stages;
  }
  // A ring needs two places to turn, three to copy while it is read; shorter stages give more.
  const int64_t fewest = tile.slabs == 1 ? 2 : 3;
  return tile.left_stages >= std::min(tile.stages, fewest) &&
         tile.shared_bytes(work.tensor_cores()) <= kSharedBytes;
}

std::optional<FusedTile> make_tile(const FusedWork& work, int64_t units, int64_t rows) {
  FusedTile tile = {.units = units, .rows = rows};
  tile.gates = round_up(work.results * units, work.tensor_cores() ? 16 : 8);
  if (!split_over_warps(work, tile)) return std::nullopt;
  while (!fit_stages(work, tile)) {
    if (tile.slabs == 1) return std::nullopt;
    tile.slabs /= 2;
    tile.warp_parts = std::min(tile.warp_parts, tile.slabs * (work.tensor_cores() ? 2 : 8));
  }
  return tile;
}

/// Step 4.
double predicted_time(const FusedWork& work, const FusedTile& tile) {
  const double rate = work.dtype != DType::f32 ? kHalfProducts
                      : work.tf32              ? kTf32Products
                                               : kExactProducts;
  const int64_t rows = std::min(tile.rows, work.batch);
  // What warps read of shared memory for a byte along k; without tensor cores each of its cycles
  // serves half a warp (fused.cuh).
  const int64_t reads = work.tensor_cores()
                            ? tile.gates * tile.warp_rows + tile.rows * tile.warp_gates
                            : 2 * tile.gates * tile.warp_rows + 4 * tile.rows;
  // The elementwise work touches about as many arrays, by sectors of 32 bytes.
  int64_t bytes = (work.results + 4) * rows * std::max<int64_t>(tile.units * 4, 32);
  int64_t shared = tile.warp_parts * tile.gates * tile.rows * 8;  // partial sums, both ways
  int64_t products = 0;
  for (const FusedWork::Product& product : work.products) {
    bytes += (product.members * tile.units + rows) * work.k_bytes(product);
    shared += reads * work.k_bytes(product);
    products += tile.gates * tile.rows * product.k;
  }
  const double arithmetic = static_cast<double>(products) / rate;
  const double reading = static_cast<double>(shared) / kSharedMemory;
  // They hide one another in part.
  const double inside = std::max(arithmetic, reading) + kUnhidden * std::min(arithmetic, reading);
  const auto blocks = static_cast<double>(tile.tiles(work) * tile.row_tiles(work) * work.instances);
  return std::ceil(blocks / kMultiprocessors) *
         (std::max(static_cast<double>(bytes) / kBytes, inside) + kBlock);
}

}  // namespace

int64_t FusedTile::shared_bytes(bool tensor_cores) const {
  const int64_t rings = (weight_stages * gates + left_stages * rows) * stage_bytes();
  const int64_t sum_stride = tensor_cores ? gates + 4 : gates + (40 - gates % 32) % 32;
  return std::max(rings, warp_parts * rows * sum_stride * 4);
}

int64_t FusedTile::blocks_per_multiprocessor(bool tensor_cores) const {
  if (tensor_cores) return thread_sums() <= 48 ? 2 : 1;
  const int64_t gate_tiles = gates / 8;
  const int64_t row_tiles = rows / (4 * warp_rows);
  return thread_sums() + 4 * (gate_tiles + row_tiles) <= 72 ? 2 : 1;
}

int64_t FusedTile::tiles(const FusedWork& work) const {
  return work.segments * ceil_div(work.segment_length, units);
}

int64_t FusedTile::row_tiles(const FusedWork& work) const {
  return ceil_div(work.batch, rows);
}

FusedTile choose_fused_tile(const FusedWork& work) {
  std::optional<FusedTile> best;
  double best_time = 0;
  const int64_t fewest_rows = work.tensor_cores() ? 8 : 4;
  for (int64_t rows = fewest_rows; rows <= kMostRows; rows *= 2) {
    if (rows > fewest_rows && rows / 2 >= work.batch) break;
    for (int64_t units = 1; units <= kMostUnits; units *= 2) {
      if (units > 1 && units / 2 >= work.segment_length) break;
      const std::optional<FusedTile> tile = make_tile(work, units, rows);
      if (!tile) continue;
      const double time = predicted_time(work, *tile);
      if (!best || time < best_time) {
        best = tile;
        best_time = time;
      }
    }
  }
  RNNC_CHECK(best, "no tile for {} results of products", work.results);
  return *best;
}

}  // namespace rnnc
