/// What the thread blocks of a RecurrenceLaunch hand to each other at each step, and where in its
/// `exchange` that lies. Rows are in tiles of at most 8, and a tile's rows side by side in pieces
/// of 64 bytes, as tensor cores take them: who reads a piece reads memory without gaps.
#pragma once

#include <span>
#include <vector>

#include "ir/persistent/recurrence_gathers.h"
#include "ir/plan/plan.h"
#include "ir/plan/recurrence_kernel.h"

namespace rnnc {

/// By phase: the parts of its rows of which no thread block has elements of two. Phases of one
/// length have them together, so that a thread has the same elements in all of these.
std::vector<int64_t> phase_segments(const Plan& plan, std::span<const FusedLaunch> phases);

/// Whether each vector that the product, of phase `reader`, takes from other phases stays within a
/// thread block if blocks have whole segments of that phase's rows. `sides`: as in RecurrenceTile.
bool stays_in_block(const Plan& plan, std::span<const FusedLaunch> phases,
                    std::span<const size_t> sides, size_t reader,
                    const FusedLaunch::Product& product);
/// Likewise of all products of the side that take any of the vectors that this one of it takes.
bool all_stay_in_block(const Plan& plan, std::span<const FusedLaunch> phases,
                       std::span<const size_t> sides, size_t side,
                       const FusedLaunch::Product& product);

struct RecurrenceExchange {
  /// What products read as `left` while phases store it: `blocks` vectors of k elements. Vector v
  /// of row r of group g begins at byte
  ///   offset + (((g * tiles + r / 8) * blocks + v) * pieces * tile_rows + r % 8) * 64
  /// of a step, and its pieces are tile_rows * 64 bytes apart. One that is local is not of the
  /// exchange but in each block's shared memory, its one vector of one group for two steps. What a
  /// side keeps so and others multiply with has a slice of the exchange besides. Of clusters, all
  /// others are in the shared memory of each of the group's blocks as well, for `slots` steps.
  struct Slice {
    BufferId buffer = kNoBuffer;
    int64_t column = 0;
    int64_t k = 0;
    int64_t blocks = 1;
    int64_t pieces = 0;     // of a vector
    int64_t offset = 0;     // bytes
    bool local = false;     // which blocks do not hand to each other
    size_t side = 0;        // of one that is local: whose blocks
    int64_t row_bytes = 0;  // of clusters: that phases store of a row at each step

    bool holds(const Access& access, int64_t count) const {
      return access.buffer == buffer && access.column < column + k * blocks &&
             column < access.column + count;
    }
  };
  std::vector<Slice> slices;
  int64_t tile_rows = 0;  // of a tile; the last of a group may have fewer
  int64_t tiles = 0;      // of a group
  /// By side: offset of its parts of reductions, of 8 bytes: of rows, levels, blocks.
  std::vector<int64_t> parts;
  /// What kernels gather: rows of f32, one element behind the other.
  struct Gathered : RecurrenceGather {
    int64_t offset = 0;  // bytes
  };
  std::vector<Gathered> gathered;
  int64_t step_bytes = 0;
  int64_t local_bytes = 0;  // of a block's shared memory, the most of a side
  // Of clusters: bytes of a step in the shared memory of each block, and steps.
  int64_t cluster_bytes = 0;
  int64_t slots = 0;
};

/// Whether blocks can exchange through each other's shared memory, if each has an even number of
/// elements of every phase: there are no reductions, kernels gather nothing, and each product waits
/// for all blocks, which so are never further apart than there are slots.
bool can_be_clusters(const Plan& plan, std::span<const FusedLaunch> phases);

/// Steps that blocks of clusters keep of what they exchange. A block stores those of step t when
/// all have ended step t - 2 - d, and so have read those of step t - 2 - 2d, d being the longest
/// delay. A power of two.
int64_t cluster_slots(const Plan& plan, std::span<const FusedLaunch> phases);

/// Index among `slices` of what a product reads, or slices.size() if it is not exchanged. Of two,
/// the local one.
size_t slice_of(std::span<const RecurrenceExchange::Slice> slices,
                const FusedLaunch::Product& product);

RecurrenceExchange exchange_of(const Plan& plan, const RecurrenceLaunch& launch);

/// Width of the launch's `exchange`, which has one row for each of the batch; 0: it needs none.
int64_t exchange_width(const Plan& plan, const RecurrenceLaunch& launch);

}  // namespace rnnc
