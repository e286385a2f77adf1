// 1. Try every number of elements (powers of two) and of rows of a tile whose sums fit a block, for
//    one and for two blocks per multiprocessor.
// 2. Split the tile over 8 warps: gates and rows as far as each warp still reads little for its
//    sums, then k. Fewer warps where k is too short for all. Then k into slabs.
// 3. Take as many slabs of the operands as fit: all of both, all weights and a ring for the rest,
//    or two rings. Halve the slabs until enough of them do.
// 4. Of all tiles take the one with the least predicted time.
#include "codegen/cuda/fused/fused_tile.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>

#include "ir/base/arithmetic.h"

namespace rnnc {
namespace {

constexpr int64_t kMostUnits = 64;
constexpr int64_t kMostRows = 64;
constexpr int64_t kMostWarps = 8;
constexpr int64_t kFewestLeftSlabs = 3;    // of a ring beside resident weights
constexpr int64_t kReservedBytes = 1024;   // of shared memory, of every block
constexpr int64_t kBarrierBytes = 16;      // of a slab of an operand
constexpr int64_t kSlabs = 4;              // enough to work on some while others come
constexpr int64_t kFewestPieces = 4;       // of a slab, per warp, in exact products
constexpr int64_t kRegisters = 64 * 1024;  // of a multiprocessor
constexpr int64_t kOtherRegisters = 28;    // of a thread, beside sums and operands

// The model: an H200, in nanoseconds.
constexpr int64_t kMultiprocessors = 132;
constexpr double kBytes = 40;           // per multiprocessor from the second-level cache
constexpr double kExactProducts = 190;  // multiply-adds per multiprocessor
constexpr double kTf32Products = 450;
constexpr double kHalfProducts = 900;
constexpr double kSharedMemory = 220;  // bytes per multiprocessor
constexpr double kUnhidden = 0.3;      // of the lesser of arithmetic and reads of shared memory
constexpr double kAhead = 0.7;         // of weights, that arrive while the launch before runs
constexpr double kSlab = 120;          // a wait
constexpr double kTurn = 300;          // a slab whose copy begins only where another was
constexpr double kBlocks = 1500;       // the start and end of blocks that run side by side

int64_t longest_k_bytes(const FusedWork& work) {
  int64_t longest = 0;
  for (const FusedWork::Product& product : work.products) {
    longest = std::max(longest, work.k_bytes(product));
  }
  return longest;
}

int64_t slabs_of(const FusedWork& work, int64_t slab_bytes) {
  int64_t slabs = 0;
  for (const FusedWork::Product& product : work.products) {
    slabs += ceil_div(work.k_bytes(product), slab_bytes);
  }
  return slabs;
}

/// The largest power of two up to `value`, which is at least 1.
int64_t power_of_two_below(int64_t value) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(value)));
}

int64_t power_of_two_from(int64_t value) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value)));
}

/// Along k, what the lanes of a warp read at once.
int64_t piece_bytes(const FusedWork& work, const FusedTile& tile) {
  return work.tensor_cores() ? 64 : 16 * tile.lane_parts;
}

/// Along k; two parts of lanes alternate by 64 bytes.
int64_t shortest_slab(const FusedTile& tile) {
  return 64 * tile.lane_parts;
}

/// Splits k over the warps that are left, and into slabs.
bool split_over_parts(const FusedWork& work, FusedTile& tile) {
  const int64_t piece = piece_bytes(work, tile);
  const int64_t most = kMostWarps / (tile.warp_gates * tile.warp_rows);
  if (most < 1) return false;
  const int64_t longest = longest_k_bytes(work);
  tile.warp_parts = power_of_two_below(std::min(most, ceil_div(longest, piece)));
  const int64_t least = tile.warp_parts * piece * (work.tensor_cores() ? 1 : kFewestPieces);
  const int64_t all = power_of_two_from(longest);
  tile.slab_bytes = std::max(shortest_slab(tile), std::min(std::max(least, all / kSlabs), all));
  return true;
}

/// Step 2. Whether the tile is one that warps can share.
bool split_on_tensor_cores(const FusedWork& work, FusedTile& tile) {
  tile.warp_rows = std::max<int64_t>(1, tile.rows / 32);
  if (tile.rows >= 32) {
    tile.warp_gates = tile.gates % 64 == 0 && tile.gates >= 128 ? 4 : tile.gates % 32 == 0 ? 2 : 1;
  }
  return split_over_parts(work, tile) && tile.thread_sums() <= 64;
}

/// Likewise of exact products: of all ways the one in which a lane reads least for a product.
bool split_exactly(const FusedWork& work, FusedTile& tile) {
  std::optional<FusedTile> best;
  double best_reads = 0;
  for (const int64_t lane_parts : {1, 2}) {
    for (int64_t warp_gates = 1; warp_gates <= kMostWarps; warp_gates *= 2) {
      for (int64_t warp_rows = 1; warp_rows <= kMostWarps / warp_gates; warp_rows *= 2) {
        FusedTile tried = tile;
        tried.lane_parts = lane_parts;
        tried.warp_gates = warp_gates;
        tried.warp_rows = warp_rows;
        if (tile.gates % (8 / lane_parts * warp_gates) != 0 || tile.rows % (4 * warp_rows) != 0) {
          continue;
        }
        if (tried.lane_tiles() > 16 || !split_over_parts(work, tried)) continue;
        // Idle warps cost as much as reads do.
        const int64_t sums = tried.thread_sums() * (tried.threads() / 32);
        const double reads =
            static_cast<double>(tried.lane_tiles() * kMostWarps) / static_cast<double>(sums);
        if (best && reads >= best_reads) continue;
        best = tried;
        best_reads = reads;
      }
    }
  }
  if (best) tile = *best;
  return best.has_value();
}

/// Step 3. Whether there is room.
bool fit_slabs(const FusedWork& work, FusedTile& tile, int64_t room) {
  const bool tensor_cores = work.tensor_cores();
  tile.slabs = slabs_of(work, tile.slab_bytes);
  const int64_t weight = tile.gates * tile.pitch(tensor_cores) + kBarrierBytes;
  const int64_t left = tile.rows * tile.pitch(tensor_cores) + kBarrierBytes;
  const int64_t beside_weights = (room - tile.slabs * weight) / left;
  if (beside_weights >= std::min(tile.slabs, kFewestLeftSlabs)) {
    tile.weight_slabs = tile.slabs;
    tile.left_slabs = std::min(tile.slabs, beside_weights);
  } else {
    tile.weight_slabs = std::min(tile.slabs, room / (weight + left));
    tile.left_slabs = tile.weight_slabs;
  }
  // A ring needs two places to turn, three to copy while it is read; shorter slabs give more.
  const int64_t fewest = tile.slab_bytes == shortest_slab(tile) ? 2 : 3;
  return tile.left_slabs >= std::min(tile.slabs, fewest) &&
         tile.shared_bytes(tensor_cores) + (tile.weight_slabs + tile.left_slabs) * kBarrierBytes <=
             room;
}

/// A tile of which `blocks` fit a multiprocessor.
std::optional<FusedTile> make_tile(const FusedWork& work, int64_t most_shared_bytes, int64_t units,
                                   int64_t rows, int64_t blocks) {
  const bool tensor_cores = work.tensor_cores();
  FusedTile tile = {.units = units, .rows = rows, .blocks_per_multiprocessor = blocks};
  const int64_t gates = work.results * units;
  // Many are split over warps as well.
  tile.gates = round_up(gates, tensor_cores ? 16 : gates > 64 ? 64 : 8);
  if (!(tensor_cores ? split_on_tensor_cores(work, tile) : split_exactly(work, tile))) {
    return std::nullopt;
  }
  const int64_t registers =
      tile.thread_sums() + (tensor_cores ? 48 : 8 * tile.lane_tiles()) + kOtherRegisters;
  if (blocks * kMostWarps * 32 * registers > kRegisters && blocks > 1) return std::nullopt;
  const int64_t room = (most_shared_bytes + kReservedBytes) / blocks - kReservedBytes;
  while (!fit_slabs(work, tile, room)) {
    if (tile.slab_bytes == shortest_slab(tile)) return std::nullopt;
    tile.slab_bytes /= 2;
    tile.warp_parts = std::min(tile.warp_parts, tile.slab_bytes / piece_bytes(work, tile));
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
  // serves half a warp, of which pairs of lanes read the same (fused.cuh).
  const int64_t reads =
      work.tensor_cores()
          ? tile.gates * tile.warp_rows + tile.rows * tile.warp_gates
          : 16 * tile.lane_tiles() * tile.warp_gates * tile.warp_rows / tile.lane_parts;
  // The elementwise work touches about as many arrays, by sectors of 32 bytes.
  int64_t bytes = (work.results + 4) * rows * std::max<int64_t>(tile.units * 4, 32);
  int64_t weight_bytes = 0;
  int64_t shared = tile.warp_parts * tile.gates * tile.rows * 8;  // partial sums, both ways
  int64_t products = 0;
  for (const FusedWork::Product& product : work.products) {
    weight_bytes += product.members * tile.units * work.k_bytes(product);
    bytes += rows * work.k_bytes(product);
    shared += reads * work.k_bytes(product);
    products += tile.gates * tile.rows * product.k;
  }
  const double arithmetic = static_cast<double>(products) / rate;
  const double reading = static_cast<double>(shared + weight_bytes + bytes) / kSharedMemory;
  // They hide one another in part.
  const double inside = std::max(arithmetic, reading) + kUnhidden * std::min(arithmetic, reading);
  const int64_t blocks = tile.tiles(work) * tile.row_tiles(work) * work.instances;
  const int64_t turns = ceil_div(blocks, kMultiprocessors);
  // Blocks of the next launch begin where there is room beside all of this one's.
  const double now = turns < tile.blocks_per_multiprocessor ? 1 - kAhead : 1;
  const double copies =
      (static_cast<double>(bytes) + now * static_cast<double>(weight_bytes)) / kBytes;
  return static_cast<double>(ceil_div(turns, tile.blocks_per_multiprocessor)) * kBlocks +
         static_cast<double>(turns) *
             (std::max(copies, inside) + static_cast<double>(tile.slabs) * kSlab +
              static_cast<double>(tile.slabs - tile.left_slabs) * kTurn);
}

}  // namespace

int64_t FusedTile::lane_tiles() const {
  return gates * lane_parts / (8 * warp_gates) + rows / (4 * warp_rows);
}

int64_t FusedTile::pitch(bool tensor_cores) const {
  if (!tensor_cores) return slab_bytes + 16;
  return slab_bytes % 128 == 0 ? slab_bytes + 64 : slab_bytes;
}

int64_t FusedTile::shared_bytes(bool tensor_cores) const {
  const int64_t rings = (weight_slabs * gates + left_slabs * rows) * pitch(tensor_cores);
  const int64_t sum_stride = tensor_cores ? gates + 4 : gates + (40 - gates % 32) % 32;
  return std::max(rings, warp_parts * rows * sum_stride * 4);
}

int64_t FusedTile::tiles(const FusedWork& work) const {
  return work.segments * ceil_div(work.segment_length, units);
}

int64_t FusedTile::row_tiles(const FusedWork& work) const {
  return ceil_div(work.batch, rows);
}

int64_t most_shared_bytes(std::string_view arch) {
  // Newer ones have at least what the smallest have.
  constexpr int64_t kLeast = 99;
  static const std::map<std::string_view, int64_t> kilobytes = {
      {"sm_80", 163}, {"sm_87", 163}, {"sm_90", 227}, {"sm_100", 227}, {"sm_103", 227}};
  const auto found = kilobytes.find(arch);
  return (found == kilobytes.end() ? kLeast : found->second) * 1024;
}

FusedTile choose_fused_tile(const FusedWork& work, int64_t most_shared_bytes) {
  std::optional<FusedTile> best;
  double best_time = 0;
  const auto consider = [&](int64_t units, int64_t rows, int64_t blocks) {
    const std::optional<FusedTile> tile = make_tile(work, most_shared_bytes, units, rows, blocks);
    if (!tile) return;
    const double time = predicted_time(work, *tile);
    if (best && time >= best_time) return;
    best = tile;
    best_time = time;
  };
  const int64_t fewest_rows = work.tensor_cores() ? 8 : 4;
  for (int64_t rows = fewest_rows; rows <= kMostRows; rows *= 2) {
    if (rows > fewest_rows && rows / 2 >= work.batch) break;
    for (int64_t units = 1; units <= kMostUnits; units *= 2) {
      if (units > 1 && units / 2 >= work.segment_length) break;
      for (const int64_t blocks : {2, 1}) consider(units, rows, blocks);
    }
  }
  RNNC_CHECK(best, "no tile for {} results of products", work.results);
  return *best;
}

}  // namespace rnnc
