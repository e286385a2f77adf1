/// What a tile of a RecurrenceLaunch needs, by the one set of formulas that there is for it: with
/// numbers of a tile that is chosen, for the kernel's layout
/// (codegen/cuda/persistent/recurrence_layout.h) and the Plan's verifier; with expressions over
/// unknown ones for who chooses (passes). N is int64_t, or a type with + - * and, found by
/// argument, min, max and ceil_div.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "ir/base/arithmetic.h"
#include "ir/persistent/recurrence_shape.h"
#include "ir/plan/plan.h"
#include "ir/plan/recurrence_kernel.h"

namespace rnnc {
namespace footprint {

// ---- Arithmetic without branches, which expressions have none of. Conditions are 0 or 1. ----

inline int64_t min(int64_t a, int64_t b) {
  return std::min(a, b);
}
inline int64_t max(int64_t a, int64_t b) {
  return std::max(a, b);
}
/// Of b that is positive and a that is not negative.
template <class N>
N floor_div(const N& a, const std::type_identity_t<N>& b) {
  return ceil_div(a - b + 1, b);
}
/// 1 if a > b.
template <class N>
N is_above(const N& a, const std::type_identity_t<N>& b) {
  return min(max(a - b, 0), 1);
}
template <class N>
N select(const N& condition, const std::type_identity_t<N>& yes,
         const std::type_identity_t<N>& no) {
  return condition * yes + (1 - condition) * no;
}

// ---- What others need of it without a tile's other numbers. ----

/// Blocks of threads that have elements of a row: none has those of two segments.
template <class N>
N blocks_with_elements(int64_t length, int64_t segments, const N& units) {
  return segments * ceil_div(length / segments, units);
}
/// Blocks of threads that share a row: whole clusters of those that share k in each segment, so
/// that the last of a segment may have no elements.
template <class N>
N blocks_of_row(int64_t length, int64_t segments, const N& units, const N& k_blocks) {
  return segments * k_blocks * ceil_div(length / segments, k_blocks * units);
}
/// Bytes of a vector that blocks hand to each other, for all rows of a group: tiles of rows, each
/// with as many as the first, by whole pieces of the vector (ir/persistent/recurrence_exchange.h).
template <class N>
N bytes_of_vectors(const N& group_rows, int64_t k_bytes) {
  return ceil_div(group_rows, kExchangeTileRows) * min(group_rows, kExchangeTileRows) *
         (ceil_div(k_bytes, kExchangePieceBytes) * kExchangePieceBytes);
}

}  // namespace footprint

/// Of a RecurrenceTile (ir/plan/plan.h), what a footprint depends on.
template <class N>
struct TileNumbers {
  N groups, warps, k_warps, k_blocks, rows;
  N split, streams, clusters, own_sums;  // 0 or 1
  std::vector<N> units;                  // by phase
};

inline TileNumbers<int64_t> numbers_of(const RecurrenceTile& tile) {
  return {.groups = tile.groups,
          .warps = tile.warps,
          .k_warps = tile.k_warps,
          .k_blocks = tile.k_blocks,
          .rows = tile.rows,
          .split = tile.split ? 1 : 0,
          .streams = tile.streamed_words > 0 ? 1 : 0,
          .clusters = tile.clusters ? 1 : 0,
          .own_sums = tile.own_sums ? 1 : 0,
          .units = tile.units};
}

/// Of a block's shared memory, in the order in which these lie there. Its weights and inputs come
/// after them.
template <class N>
struct SharedBytes {
  N sums;        // of products that warps share
  N lefts;       // operands of exact products
  N block_sums;  // of other blocks that share k, and barriers for these
  N statistics;  // results of reductions
  N local;       // what it hands to itself
  N cluster;     // what blocks of its cluster hand to it, and barriers for that
  N carries;     // what its threads keep from step to step, where registers cannot

  N total() const { return sums + lefts + block_sums + statistics + local + cluster + carries; }
};

namespace footprint {

template <class N>
class Footprint {
 public:
  using Product = RecurrenceShape::Product;
  using Phase = RecurrenceShape::Phase;

  Footprint(RecurrenceShape of_shape, TileNumbers<N> numbers)
      : shape(std::move(of_shape)),
        tile(std::move(numbers)),
        exact(shape.engine == RecurrenceEngine::Exact ? N(1 - tile.split) : N(0)),
        threads(kThreadsOfWarp * tile.warps),
        gate_warps(ceil_div(tile.warps, tile.k_warps)),
        group_rows(ceil_div(shape.batch, tile.groups)),
        laps(ceil_div(group_rows, tile.rows)),
        row_tiles(ceil_div(tile.rows, kExchangeTileRows)) {
    for (size_t p = 0; p < shape.phases.size(); ++p) {
      blocks_.push_back(blocks_of_row(shape.phases[p].length, shape.phases[p].segments,
                                      tile.units[p], tile.k_blocks));
      spans_.push_back(span_of(p));
      items_.push_back(items_of(p));
      elements_.push_back(spans_[p] * items_[p]);
    }
  }

  RecurrenceShape shape;
  TileNumbers<N> tile;
  N exact;       // 1: products are fused multiply-adds
  N threads;     // of a block
  N gate_warps;  // warps that share a product's gates; those of one gate share k
  N group_rows;  // of the batch
  N laps;        // over these
  N row_tiles;   // of 8 rows, in a lap

  /// 1 if one code serves all laps: carries are in shared memory then, because registers have no
  /// index.
  N are_laps_alike() const {
    const N reasons = max(laps - kMostUnrolledLaps, 0) + max(tile.rows - kMostUnrolledRows, 0);
    return min((laps - 1) * reasons, 1);
  }

  // ---- Blocks ----

  /// Of a group, that have elements of a phase.
  const N& blocks(size_t p) const { return blocks_[p]; }
  /// Of these, that have elements.
  N blocks_with_elements(size_t p) const {
    return footprint::blocks_with_elements(shape.phases[p].length, shape.phases[p].segments,
                                           tile.units[p]);
  }
  /// 1 if a block has whole segments of a phase's rows.
  N has_segments(size_t p) const { return 1 - min(blocks_[p] - shape.phases[p].segments, 1); }

  // ---- Elements of a thread ----

  /// Of a tile of 8 rows and a member's 16 elements, sums that a lane has to itself where warps
  /// keep their sums: of two rows where there are more than 4, and of two elements where there are
  /// more than 2, so that all lanes have some.
  N lane_rows() const { return 1 + is_above(group_rows, kLanesOfGate); }
  N lane_elements() const { return 1 + are_two_elements(); }

  /// Neighbouring elements of a thread: two, or one where there are threads for all of a lap and
  /// two are no word together, or steps are so short that it counts, or phases so long, with
  /// reductions. (On an H200 in f32, LSTM 1x1024 1.16 us, so 1.125, and 16x1024 in TF32 2.25, so
  /// 2.12; with halves in bf16 1.40, so 1.47.) The sums that lanes have to themselves say it where
  /// there are some.
  const N& span(size_t p) const { return spans_[p]; }
  /// Rows of a lap that the threads have at once.
  N rows_at_once(size_t p) const { return floor_div<N>(spans_[p] * threads, tile.units[p]); }
  /// Of a thread in a lap, so many times a span.
  const N& items(size_t p) const { return items_[p]; }
  const N& elements(size_t p) const { return elements_[p]; }

  // ---- Products ----

  /// Tiles of 16 gates, of a warp.
  N tiles(size_t p, const Product& product) const {
    return ceil_div(ceil_div(product.members * (tile.k_blocks * tile.units[p]), kTileGates),
                    gate_warps);
  }
  /// Along k, of a warp.
  N pieces(const Product& product) const {
    return ceil_div(ceil_div(product.k_bytes, kExchangePieceBytes), tile.k_blocks * tile.k_warps);
  }
  /// 1 if its sums are apart from those of others.
  N has_sums(const Product& product) const { return product.added ? exact : N(1); }
  /// Columns of a phase's sums, which warps share.
  N columns(size_t p) const {
    N columns = 0;
    for (const Product& product : shape.phases[p].products) {
      columns = columns + has_sums(product) * (kTileGates * tiles(p, product) * gate_warps);
    }
    return columns;
  }
  /// 1 if blocks share k.
  N shares_k() const { return min(tile.k_blocks - 1, 1); }
  /// Columns of a phase's sums that a block needs, where each that shares k has its own.
  N block_columns(size_t p) const {
    N gates = 0;
    for (const Product& product : shape.phases[p].products) {
      gates = gates + has_sums(product) * (product.members * tile.units[p]);
    }
    return kTileGates * ceil_div(gates, kTileGates);
  }
  /// Rows of sums in shared memory: all of a lap, or where room is scarce, because weights are
  /// streamed, those that there are. (Which cost 7 % at LSTM 16x256 in bf16 on an H200.)
  N sum_rows() const {
    return select(tile.streams, 2 * ceil_div(min(tile.rows, group_rows), 2), tile.rows);
  }
  /// Tiles of weights of a side's products, of a warp.
  N weight_tiles(size_t begin, size_t end) const {
    N all = 0;
    for (size_t p = begin; p < end; ++p) {
      for (const Product& product : shape.phases[p].products) {
        all = all + tiles(p, product) * pieces(product);
      }
    }
    return all;
  }
  /// Bytes of one of each warp, in shared memory.
  N bytes_of_tile() const { return threads * (kTileWords * kBytesOfWord); }

  // ---- Shared memory ----

  /// Of one value of each element that the threads have of a phase, in all laps.
  N bytes_of_carry(size_t p) const { return laps * elements(p) * threads * kBytesOfWord; }

  /// Where the phase that has most has so many columns.
  N bytes_of_sums(const N& columns) const {
    return (1 - tile.own_sums) * tile.k_warps * sum_rows() * columns * (kSumBuffers * kBytesOfWord);
  }

  /// Likewise of what blocks that share k hand to each other, without the barriers.
  N bytes_of_block_sums(const N& columns) const {
    return (tile.k_blocks - 1) * sum_rows() * columns * (kSumBuffers * kBytesOfWord);
  }

  /// Of a side's phases.
  SharedBytes<N> shared_bytes(size_t begin, size_t end) const {
    N most_columns = 0;
    N most_block_columns = 0;
    N most_pieces = 0;
    N carries = 0;
    N local = 0;
    N cluster = 0;
    int64_t partials = 0;
    for (size_t p = begin; p < end; ++p) {
      const Phase& phase = shape.phases[p];
      most_columns = max(most_columns, columns(p));
      most_block_columns = max(most_block_columns, block_columns(p));
      partials = max(partials, phase.partials);
      carries = carries + phase.carried * bytes_of_carry(p);
      for (const Product& product : phase.products) {
        most_pieces = max(most_pieces, pieces(product));
        const N vectors = bytes_of_vectors(group_rows, product.k_bytes);
        if (product.keeps) local = local + kStepsKept * has_segments(p) * vectors;
        if (product.sends) cluster = cluster + shape.slots * (vectors + kBytesOfBarrier);
      }
    }
    return {.sums = bytes_of_sums(most_columns + kPadOfSums),
            .lefts = exact * tile.warps * most_pieces * (kExchangeTileRows * kExchangePieceBytes),
            .block_sums = bytes_of_block_sums(most_block_columns + kPadOfSums) +
                          shares_k() * (kSumBuffers * kBytesOfBarrier),
            .statistics = partials * kBytesOfPart * tile.rows,
            .local = local,
            .cluster = tile.clusters * cluster,
            .carries = are_laps_alike() * carries};
  }

 private:
  N are_two_elements() const { return is_above(group_rows, kLanesOfGate / 2); }
  N span_of(size_t p) const {
    const N suits_one = shape.reduces || shape.element_bytes == kBytesOfWord ? N(1) : tile.clusters;
    const N has_threads = 1 - is_above<N>(tile.rows * tile.units[p], threads);
    const N is_one = select(tile.own_sums, 1 - are_two_elements(), suits_one * has_threads);
    return min(tile.units[p], kMostSpan - (kMostSpan - 1) * is_one);
  }
  N items_of(size_t p) const {
    return select(tile.own_sums, lane_rows() * row_tiles, ceil_div(tile.rows, rows_at_once(p)));
  }

  // By phase: expressions that many others share.
  std::vector<N> blocks_, spans_, items_, elements_;
};

}  // namespace footprint

template <class N>
using RecurrenceFootprint = footprint::Footprint<N>;

}  // namespace rnnc
