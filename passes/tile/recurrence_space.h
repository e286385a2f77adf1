/// The tiles that a recurrence can have (passes/tile/recurrence_tiles.h): variables, and what both
/// a tile's needs and its time are made of, as expressions over them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "passes/options/machine.h"
#include "passes/solver/integer_problem.h"
#include "passes/tile/recurrence_shapes.h"
#include "passes/tile/recurrence_tiles.h"

namespace rnnc {

/// Of the kernel, beside ir/persistent/recurrence_kernel.h.
inline constexpr int64_t kBytesOfWord = 4;
inline constexpr int64_t kBytesOfSector = 32;
inline constexpr int64_t kBytesOfLoad = 16;
inline constexpr int64_t kBytesOfPart = 8;  // of a reduction
inline constexpr int64_t kRowsAdded = 2;    // of exact products, at once

/// What makes a recurrence's products: fused multiply-adds or split ones, or tensor cores.
enum class TileEngine : uint8_t { Exact, Tf32, Half };

/// `plan`, `machine` and the phases outlive this.
struct TileSpace {
  TileSpace(const Plan& plan, std::span<const FusedLaunch> launch_phases, const Machine& machine,
            const TileChoice& choice);

  IntegerExpression blocks_of(size_t phase) const;
  /// 1 if what a block makes of a row is not whole sectors of 32 bytes, else 0.
  IntegerExpression shares_sectors(size_t phase) const;
  bool opens_side(size_t phase) const;
  /// 1 if a block has whole segments of a phase's rows, else 0.
  IntegerExpression has_segments(size_t phase) const;
  /// Of the weights of a product, for one warp: across, and along k.
  IntegerExpression tiles(size_t phase, const ProductShape& product) const;
  IntegerExpression pieces(const ProductShape& product) const;
  /// 1 if one code serves all passes, else 0.
  IntegerExpression are_passes_alike() const;
  /// Of a gate, and loaded. Tensor cores make those of rows that are not there as well, for which
  /// blocks of a grid have time while they wait.
  IntegerExpression sums_stored() const;
  /// Neighbouring elements of a thread: where there are threads for all one in clusters, of words
  /// and with reductions, and one where lanes have one sum of a member.
  IntegerExpression span_of(size_t phase) const;
  /// Elements that a thread makes at once: of as many rows as threads are enough for. In their
  /// warps, sums of two rows lie in a lane where there are more than 4.
  IntegerExpression elements_of_thread(size_t phase) const;

  const Machine& machine;
  int64_t machine_units;  // that there are for it
  std::vector<size_t> sides;
  TileEngine engine;
  int64_t batch;
  int64_t element_bytes;
  std::vector<PhaseShape> phases;
  std::vector<bool> unlike;  // by phase
  bool reduces;
  bool all_share_k;  // or gates could not be shared
  IntegerProblem problem;
  IntegerVariable groups, warps, k_warps, rows;
  IntegerVariable splits, streams;     // 0 or 1
  IntegerVariable clusters;            // likewise: groups are clusters
  int64_t slots;                       // of steps that their blocks exchange
  IntegerVariable owns;                // 0 or 1: warps own the sums of their elements
  IntegerExpression exact;             // likewise
  std::vector<IntegerVariable> units;  // per phase
  int64_t lengths = 0;                 // different ones of phases
  IntegerExpression gate_warps;        // those that share gates
  IntegerExpression threads;           // of a block
  IntegerExpression group_rows, passes;
  IntegerExpression blocks = 1;

 private:
  void add_units();
};

}  // namespace rnnc
