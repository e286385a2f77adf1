#include "passes/tile/recurrence_time.h"

#include <algorithm>
#include <cmath>

#include "ir/persistent/recurrence_exchange.h"
#include "ir/persistent/recurrence_kernel.h"

namespace rnnc {
namespace {

constexpr double kTensorShare = 0.8;     // of the machine's rate of products, with tensor cores
constexpr double kExactShare = 0.84;     // and without
constexpr double kLeastExchange = 0.55;  // of the time in which all units exchange: that of two
constexpr double kLevelExchange = 0.75;  // likewise, from elements to what they are reduced to
constexpr double kPassOfLevelExchange = 0.3;  // besides, of a further pass: it waits alone
constexpr double kPartShare = 0.26;           // of the time to read parts, which few loads do
constexpr double kSharedBandwidth = 2.2e11;   // bytes per second of one unit
constexpr double kElementwiseSeconds = 1e-7;  // of the rows at once, beside special functions
constexpr double kSpecialSeconds = 3.6e-11;   // of one, on one unit
constexpr double kWarpSeconds = 2e-8;         // of adding a warp's sums to the others'
constexpr double kRowTileSeconds = 3e-7;      // of each tile of rows at once but the first
constexpr double kAlikeSeconds = 2e-7;        // of a pass, where one code serves all
constexpr double kPieceSeconds = 5e-8;        // of a warp, for 8 rows of 64 bytes along k
constexpr double kOwnTileSeconds = 5e-9;      // of a tile by 64 bytes, where nothing is waited for
constexpr double kOwnSeconds = 5e-8;          // until a block has what it hands to itself
constexpr double kClusterSeconds = 1e-8;      // of each cluster: the slowest counts
constexpr double kPeerSeconds = 4e-9;         // of each block of a cluster
constexpr double kSentSeconds = 1.3e-10;      // of a word to one of them
constexpr double kSectorSeconds = 1e-7;       // of blocks that share sectors of the exchange
constexpr double kExactPieceSeconds = 5e-9;   // of a row of a tile, for 64 bytes along k
constexpr double kExactPairSeconds = 2.5e-7;  // of two rows at once, beside their products
constexpr double kSplitShare = 0.8;           // of the rate of TF32 products that parts are
constexpr double kSplitSeconds = 1.3e-11;     // of a unit, to split a word of weights

int64_t ticks(double seconds) {
  return std::llround(seconds * kTicks);
}

/// Of a multiplication and an addition, on one unit.
IntegerExpression multiply_ticks(const TileSpace& space) {
  const auto at = [&](double flops) { return ticks(2.0 * space.machine.units / flops); };
  switch (space.engine) {
    case TileEngine::Exact:
      return space.exact * at(space.machine.exact_flops * kExactShare) +
             (1 - space.exact) * at(space.machine.tf32_flops * kSplitShare / 3);
    case TileEngine::Tf32:
      return at(space.machine.tf32_flops * kTensorShare);
    case TileEngine::Half:
      break;
  }
  return at(space.machine.tensor_flops * kTensorShare);
}

}  // namespace

IntegerExpression ticks_of_step(const TileSpace& space, const TileMemory& memory) {
  IntegerExpression all = 0;  // of the slowest side
  const double unit = space.machine.units;
  const int64_t read = ticks(unit / space.machine.cache_bandwidth);  // of a byte
  const int64_t shared = ticks(1 / kSharedBandwidth);                // likewise
  const IntegerExpression multiply = multiply_ticks(space);          // and add
  const int64_t least = ticks(space.machine.exchange_seconds * kLeastExchange);
  const int64_t peer = ticks(space.machine.exchange_seconds * (1 - kLeastExchange) / unit);
  IntegerExpression time = 0;     // of a side
  IntegerExpression in_turn = 0;  // of that, loading weights of early products
  for (size_t i = 0; i < space.phases.size(); ++i) {
    if (!space.unlike[i]) continue;
    if (space.opens_side(i)) time = in_turn = 0;
    IntegerExpression early = 0;  // work while the block waits for its own side
    IntegerExpression peers = 0;  // blocks that a block waits for
    bool exchanged = false;
    bool stays = true;
    for (const ProductShape& product : space.phases[i].products) {
      const IntegerExpression gates = kTileGates * space.tiles(i, product) * space.gate_warps;
      const IntegerExpression k =
          space.pieces(product) * space.k_warps * (kExchangePieceBytes / space.element_bytes);
      const bool waits = product.exchanged && !product.early;
      if (waits) peers = max(peers, ceil_div(space.blocks_of(i), product.blocks));
      exchanged = exchanged || waits;
      stays = stays && (product.stays || !waits);
      const IntegerExpression rows =
          space.exact * space.group_rows + (1 - space.exact) * space.passes * space.rows;
      // Few words of a further pass's left operand come while the one before ends.
      const IntegerExpression at_once = ceil_div(space.rows, kExchangeTileRows);
      const IntegerExpression words_at_once = 4 * at_once * space.pieces(product);
      const IntegerExpression many = min(max(words_at_once - kMostWordsAhead, 0), 1);
      const bool aligned = product.k_bytes % kBytesOfLoad == 0;
      const IntegerExpression turns =
          aligned ? max(max(many, space.streams), space.clusters) * (space.passes - 1) + 1
                  : space.passes;
      const IntegerExpression row_tiles = turns * at_once;
      if (product.stays) {
        time = time + space.has_segments(i) * space.passes * space.tiles(i, product) *
                          space.pieces(product) * ticks(kOwnTileSeconds);
      }
      const IntegerExpression in_shared = product.exchanged ? 1 * space.clusters : 0;
      const IntegerExpression of_byte = in_shared * shared + (1 - in_shared) * read;
      const IntegerExpression work =
          space.group_rows * space.gate_warps * product.k_bytes * of_byte +
          row_tiles * space.pieces(product) * ticks(kPieceSeconds) + rows * gates * k * multiply +
          space.exact * space.group_rows * space.pieces(product) * space.tiles(i, product) *
              ticks(kExactPieceSeconds);
      if (product.early) {
        const IntegerExpression words =
            kTileWords * space.tiles(i, product) * space.pieces(product);
        const IntegerExpression spilled = min(words, memory.weight_words - memory.weight_registers);
        const IntegerExpression loads =
            space.passes * spilled * space.threads * (kBytesOfWord * shared);
        in_turn = in_turn + loads;
        early = early + work + loads;
      } else {
        time = time + work;
      }
      if (space.engine != TileEngine::Exact && space.sides.size() == 1) {
        time = time + (at_once - 1) * ticks(kRowTileSeconds);
      }
      const IntegerExpression stored = (1 - space.owns) * (product.added ? space.exact : 1);
      // One row of f32 is added up by few threads in little time.
      const bool one_row = space.engine == TileEngine::Exact && space.batch == 1;
      time = time +
             stored * (space.passes * space.k_warps * ticks(kWarpSeconds * (one_row ? 0.25 : 1)) +
                       space.sums_stored() * gates * space.k_warps * (kBytesOfWord * shared));
    }
    const int64_t special = space.phases[i].specials * ticks(kSpecialSeconds);
    const IntegerExpression elements = (1 - space.owns) * space.rows * space.units[i] +
                                       space.owns * space.elements_of_thread(i) * space.threads;
    time = time + space.passes * (ticks(kElementwiseSeconds) + special * elements);
    if (space.engine != TileEngine::Exact) {
      const IntegerExpression alike = min(max(space.passes - kMostUnrolledPasses, 0), 1);
      time = time + alike * space.passes * ticks(kAlikeSeconds);
    }
    IntegerExpression wait = 0;
    if (exchanged) {
      const IntegerExpression words =
          space.group_rows *
          ceil_div(space.element_bytes * IntegerExpression(space.units[i]), kBytesOfWord);
      const IntegerExpression in_cluster =
          ticks(space.machine.cluster_seconds) + space.groups * ticks(kClusterSeconds) +
          space.blocks_of(i) * (ticks(kPeerSeconds) + words * ticks(kSentSeconds)) +
          min(max(kBytesOfSector - space.element_bytes * IntegerExpression(space.units[i]), 0), 1) *
              ticks(kSectorSeconds);
      const IntegerExpression in_grid = least + min(peers, space.machine.units) * peer +
                                        space.shares_sectors(i) * ticks(kSectorSeconds);
      const IntegerExpression among_blocks =
          space.clusters * in_cluster + (1 - space.clusters) * in_grid;
      wait = stays ? (1 - space.has_segments(i)) * among_blocks +
                         space.has_segments(i) * ticks(kOwnSeconds)
                   : among_blocks;
    }
    time = time + max(wait, early);
    if (space.phases[i].gathered > 0) {
      time = time + space.passes * ticks(space.machine.exchange_seconds);
    }
    if (space.phases[i].levels > 0) {
      const double exchanges =
          static_cast<double>(space.phases[i].levels) * space.machine.exchange_seconds;
      const double parts =
          static_cast<double>(space.phases[i].reductions * kBytesOfPart) * kPartShare;
      time = time + space.passes * ticks(exchanges * kLevelExchange) +
             (space.passes - 1) * ticks(exchanges * kPassOfLevelExchange) +
             space.group_rows * space.blocks_of(i) *
                 ticks(parts * unit / space.machine.cache_bandwidth);
    }
    all = max(all, time - in_turn);
  }
  // Exact products take two rows at a time, and weights as often.
  const IntegerExpression pairs = ceil_div(min(space.rows, space.group_rows), kRowsAdded);
  const IntegerExpression times = space.passes * (1 - space.exact + space.exact * pairs);
  all = all + space.exact * min(space.group_rows - 1, 1) * space.passes * pairs *
                  ticks(kExactPairSeconds);
  all =
      all + space.passes * memory.weights_in_shared * shared + times * memory.streamed_bytes * read;
  if (space.engine == TileEngine::Exact) {
    all = all +
          space.splits * space.passes * memory.weight_words * space.threads * ticks(kSplitSeconds);
  }
  return all;
}

}  // namespace rnnc
