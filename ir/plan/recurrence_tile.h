/// How the thread blocks of a RecurrenceLaunch (ir/plan/plan.h) share its work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rnnc {

/// Most thread blocks of a cluster, on GPUs that have clusters.
inline constexpr int64_t kMostClusterBlocks = 16;
/// Likewise of one whose blocks share a product's k.
inline constexpr int64_t kMostBlocksAlongK = 4;

/// How the thread blocks of a RecurrenceLaunch share its work (passes/tile/recurrence_tiles.h).
/// Groups, blocks and units are those of each side.
struct RecurrenceTile {
  /// Parts of the batch, of ceil(B / groups) rows each. Each part has its own blocks, with a copy
  /// of all weights.
  int64_t groups = 1;
  int64_t blocks = 1;  // of a group
  int64_t warps = 8;   // of a block
  /// Of these, that share a product's k; the others share its gates.
  int64_t k_warps = 8;
  /// Neighbouring blocks that share a product's k: each makes the sums of all their elements along
  /// its part of k, and hands them to the blocks that have the elements. If there are more than
  /// one they are a cluster, of at most kMostBlocksAlongK, and each phase is of whole ones.
  int64_t k_blocks = 1;
  /// Each warp has all gates of 16 elements, along all of k, and keeps its sums to itself.
  bool own_sums = false;
  int64_t rows = 8;  // of the batch, that a block multiplies at once
  /// By phase: elements of a row that a block makes. Elements of different blocks of a product's
  /// weight are never a block's together.
  std::vector<int64_t> units;
  /// 32-bit words of weights that a thread keeps in registers…
  int64_t weight_registers = 0;
  /// …and that it loads from memory each time, because they find no room; the others are in shared
  /// memory.
  int64_t streamed_words = 0;
  /// f32: products on tensor cores, in parts that keep its accuracy; else without them.
  bool split = false;
  /// Steps of which inputs lie in shared memory, a power of two: those of the last of them are on
  /// their way while the first one's are needed (ir/persistent/recurrence_inputs.h). 0: none do.
  int64_t input_steps = 0;
  /// A group's blocks are a cluster, which exchange through each other's shared memory. Of one side
  /// alone, and of 2 to kMostClusterBlocks blocks.
  bool clusters = false;
  /// Of a chunk and of a step of it, what the model holds that chose the tile
  /// (passes/tile/recurrence_tiles.h); a step of 0: none did.
  double start_seconds = 0;
  double step_seconds = 0;
  /// The first phase of each side: side s runs those from sides[s] on that are before sides[s + 1]
  /// (ir/plan/recurrence_sides.h).
  std::vector<size_t> sides = {0};
  friend bool operator==(const RecurrenceTile&, const RecurrenceTile&) = default;
};

}  // namespace rnnc
