// Registers hold results of products, what these read, values of elements and what is kept from
// step to step; weights fill what is left of them, then shared memory, and others are streamed. Of
// sides, which have all of that in common, the one counts that needs most.
#include "passes/tile/recurrence_memory.h"

#include <algorithm>

#include "ir/base/arithmetic.h"
#include "ir/persistent/recurrence_exchange.h"
#include "ir/plan/recurrence_kernel.h"
#include "ir/plan/recurrence_sides.h"

namespace rnnc {
namespace {

using footprint::select;
using Phase = RecurrenceShape::Phase;
using Product = RecurrenceShape::Product;

// What the compiler was seen to take, on kernels for an H200 (sm_90), so that none spills:
constexpr int64_t kMostRegisters = 255;      // of a thread
constexpr int64_t kOtherRegisters = 28;      // addresses, counters, one element's arithmetic
constexpr int64_t kUnalignedRegisters = 24;  // of rows that are not loaded by 16 bytes
constexpr int64_t kStackRegisters = 8;       // places of arrays, that depend on the side
constexpr int64_t kStreamRegisters = 56;     // weights on their way from memory
constexpr int64_t kLeftWords = 64;           // of a product's left operand, at once
constexpr int64_t kLeftWordsOfStream = 32;
constexpr int64_t kPiecesOfWarp = 8;      // that its lanes load at once of one row
constexpr int64_t kValuesInWaiting = 24;  // of an element, for a reduction
constexpr int64_t kReducing = 32;         // registers that reductions take besides

/// Registers of a thread for what a side has in turn, the most of its phases, and all the time.
struct SideRegisters {
  IntegerExpression sums = 0;     // results of products
  IntegerExpression left = 0;     // and what these read
  IntegerExpression waiting = 0;  // values while reductions are waited for
  IntegerExpression values = 0;   // of elements, all the time
};

/// Of two sides, the most.
SideRegisters most(const SideRegisters& a, const SideRegisters& b) {
  return {.sums = max(a.sums, b.sums),
          .left = max(a.left, b.left),
          .waiting = max(a.waiting, b.waiting),
          .values = max(a.values, b.values)};
}
SharedBytes<IntegerExpression> most(const SharedBytes<IntegerExpression>& a,
                                    const SharedBytes<IntegerExpression>& b) {
  return {.sums = max(a.sums, b.sums),
          .lefts = max(a.lefts, b.lefts),
          .block_sums = max(a.block_sums, b.block_sums),
          .statistics = max(a.statistics, b.statistics),
          .local = max(a.local, b.local),
          .cluster = max(a.cluster, b.cluster),
          .carries = max(a.carries, b.carries)};
}

/// Of a left operand, that a thread has at once. Of one row of f32 in memory each lane of a warp has
/// a part of its own.
IntegerExpression operand_words(const TileSpace& space, const Product& product) {
  const auto& footprint = space.footprint;
  const IntegerExpression most =
      kLeftWords - (kLeftWords - kLeftWordsOfStream) * footprint.tile.streams;
  const IntegerExpression pieces = footprint.pieces(product);
  IntegerExpression words = min(4 * footprint.row_tiles * pieces, most);
  if (!product.exchanged || space.shape().batch != 1) return words;
  const IntegerExpression is_spread =
      footprint.exact * (1 - footprint.tile.clusters) * (1 - footprint.tile.streams);
  return select(is_spread, min(4 * ceil_div(pieces, kPiecesOfWarp), most), words);
}

void count_products(const TileSpace& space, size_t p, SideRegisters& registers) {
  const auto& footprint = space.footprint;
  const IntegerExpression& row_tiles = footprint.row_tiles;
  const std::vector<Product>& products = space.shape().phases[p].products;
  const IntegerExpression tile_sums =
      select(footprint.exact, 2 * kRowsAdded, (4 + 4 * footprint.tile.split) * row_tiles);
  IntegerExpression sums = 0;
  IntegerExpression ahead = 0;  // of a left operand that is there before the product's own
  for (const Product& product : products) {
    const IntegerExpression results = footprint.tiles(p, product) * tile_sums;
    const bool are_apart = !product.added && products.size() > 1;
    sums = max(sums, results) + (are_apart ? footprint.tile.own_sums * results : 0);
    const IntegerExpression operand = operand_words(space, product);
    registers.left = max(registers.left, ahead + operand + footprint.tile.split * (8 * row_tiles));
    ahead = operand;
  }
  registers.sums = max(registers.sums, sums);
}

SideRegisters registers_of(const TileSpace& space, const RecurrenceSide& side) {
  const auto& footprint = space.footprint;
  SideRegisters registers;
  for (size_t p = side.begin; p < side.end; ++p) {
    const Phase& phase = space.shape().phases[p];
    const IntegerExpression elements = footprint.elements(p);
    count_products(space, p, registers);
    registers.values = registers.values + phase.fixed * footprint.span(p) +
                       (1 - footprint.are_laps_alike()) * (phase.kept * footprint.laps * elements) +
                       (2 * phase.loaded + phase.gathered) * elements;
    if (phase.levels > 0) registers.waiting = max(registers.waiting, kValuesInWaiting * elements);
  }
  return registers;
}

IntegerExpression registers_beside(const TileSpace& space, const SideRegisters& side) {
  const auto any_phase = [&](const auto& is) {
    return std::ranges::any_of(space.shape().phases, is);
  };
  const bool unaligned = any_phase([](const Phase& phase) {
    return std::ranges::any_of(
        phase.products, [](const Product& product) { return product.k_bytes % kBytesOfLoad != 0; });
  });
  const int64_t others = kOtherRegisters + (space.shape().reduces ? kReducing : 0) +
                         (unaligned ? kUnalignedRegisters : 0) +
                         (space.shape().sides.size() > 2 ? kStackRegisters : 0);
  return max(side.sums + side.left, side.waiting) + side.values + others +
         kStreamRegisters * space.footprint.tile.streams;
}

/// The kernel's footprint, and what the choice of tiles counted besides before it had that from the
/// formulas of the layout: for each product of a phase a pad of its sums, for each reduction a part
/// though two may share one, for each load of a carry another, and twice the barriers. All tiles
/// that were measured were chosen so. (Without it 7 of 1000 recurrences of random sizes stream 8
/// words less of weights in a thread, and stage inputs of more steps, or none: what is faster is
/// not known.)
SharedBytes<IntegerExpression> reserved_bytes(const TileSpace& space, const RecurrenceSide& side) {
  const auto& footprint = space.footprint;
  SharedBytes<IntegerExpression> bytes = footprint.shared_bytes(side.begin, side.end);
  IntegerExpression columns = kPadOfSums;
  IntegerExpression carries = 0;
  int64_t reductions = 0;
  int64_t exchanged = 0;
  for (size_t p = side.begin; p < side.end; ++p) {
    const Phase& phase = space.shape().phases[p];
    IntegerExpression of_phase = footprint.columns(p);
    for (const Product& product : phase.products) {
      of_phase = of_phase + kPadOfSums * footprint.has_sums(product);
      exchanged += product.sends ? 1 : 0;
    }
    columns = max(columns, of_phase);
    carries = carries + phase.kept * footprint.bytes_of_carry(p);
    reductions = std::max(reductions, phase.reductions);
  }
  bytes.sums = footprint.bytes_of_sums(columns);
  bytes.statistics = reductions * kBytesOfPart * footprint.tile.rows;
  bytes.cluster =
      bytes.cluster + footprint.tile.clusters * (exchanged * space.shape().slots * kBytesOfBarrier);
  bytes.carries = footprint.are_laps_alike() * carries;
  return bytes;
}

}  // namespace

TileMemory::TileMemory(const TileSpace& space, int64_t spare_registers)
    : registers(0),
      most_registers(
          min(kMostRegisters, footprint::floor_div(IntegerExpression(space.machine.registers),
                                                   space.footprint.threads)) -
          spare_registers),
      shared_bytes(0),
      reserved_bytes(0),
      weight_words(0) {
  SideRegisters of_side;
  SharedBytes<IntegerExpression> shared = {0, 0, 0, 0, 0, 0, 0};
  SharedBytes<IntegerExpression> reserved = shared;
  const RecurrenceShape& shape = space.shape();
  for (size_t i = 0; i < shape.sides.size(); ++i) {
    const RecurrenceSide side = side_at(shape.sides, i, shape.phases.size());
    if (!space.unlike[side.begin]) continue;
    of_side = most(of_side, registers_of(space, side));
    shared = most(shared, space.footprint.shared_bytes(side.begin, side.end));
    reserved = most(reserved, rnnc::reserved_bytes(space, side));
    weight_words =
        max(weight_words, kTileWords * space.footprint.weight_tiles(side.begin, side.end));
  }
  registers = registers_beside(space, of_side);
  shared_bytes = shared.total();
  reserved_bytes = reserved.total();
  place_weights(space);
}

/// In whole tiles, as many as there is room for.
void TileMemory::place_weights(const TileSpace& space) {
  const IntegerExpression& streams = space.footprint.tile.streams;
  const IntegerExpression free = max(most_registers - registers, 0);
  const IntegerExpression room = kTileWords * footprint::floor_div(free, kTileWords);
  const IntegerExpression bytes = space.footprint.threads * kBytesOfWord;  // of a word of each
  const IntegerExpression free_bytes = max(space.machine.shared_bytes - reserved_bytes, 0);
  const IntegerExpression room_shared =
      kTileWords * footprint::floor_div(free_bytes, space.footprint.bytes_of_tile());
  weight_registers = min(weight_words, room);
  const IntegerExpression others = max(weight_words - room, 0);
  streamed_words = streams * max(others - room_shared, 0);
  weights_in_shared = select(streams, min(others, room_shared), others) * bytes;
  weight_bytes = weight_words * bytes;
  streamed_bytes = streamed_words * bytes;
  room_for_weights = room * bytes + space.machine.shared_bytes - reserved_bytes + streamed_bytes;
}

}  // namespace rnnc
