// Registers hold results of products, what these read, values of elements and what is kept from
// step to step; weights fill what is left of them, then shared memory, and others are streamed. Of
// sides, which have all of that in common, the one counts that needs most.
#include "passes/tile/recurrence_memory.h"

#include <algorithm>

#include "ir/persistent/recurrence_exchange.h"
#include "ir/persistent/recurrence_kernel.h"

namespace rnnc {
namespace {

constexpr int64_t kPadding = 4;              // columns behind a row of partial sums
constexpr int64_t kMostRegisters = 255;      // of a thread
constexpr int64_t kOtherRegisters = 28;      // addresses, counters, one element's arithmetic
constexpr int64_t kUnalignedRegisters = 24;  // of rows that are not loaded by 16 bytes
constexpr int64_t kStackRegisters = 8;       // places of arrays, that depend on the side
constexpr int64_t kStepsKept = 2;            // of what a block hands to itself
constexpr int64_t kStreamRegisters = 56;     // weights on their way from memory
constexpr int64_t kLeftWords = 64;           // of a product's left operand, at once
constexpr int64_t kLeftWordsOfStream = 32;
constexpr int64_t kValuesInWaiting = 24;  // of an element, for a reduction
constexpr int64_t kReducing = 32;         // registers that reductions take besides
constexpr int64_t kBytesOfBarrier = 16;   // at most

IntegerExpression left_words(const TileSpace& space) {
  return kLeftWords - (kLeftWords - kLeftWordsOfStream) * IntegerExpression(space.streams);
}

}  // namespace

TileMemory::TileMemory(const TileSpace& space, int64_t spare_registers)
    : most_registers(min(kMostRegisters,
                         ceil_div(space.machine.registers - space.threads + 1, space.threads)) -
                     spare_registers) {
  const IntegerExpression row_tiles = ceil_div(space.rows, kExchangeTileRows);
  IntegerExpression sums = 0;          // registers of products' results
  IntegerExpression left = 0;          // and of what it reads
  IntegerExpression words = 0;         // of weights, of a side
  IntegerExpression values = 0;        // of elements, all the time
  IntegerExpression most_values = 0;   // of a side
  IntegerExpression waiting = 0;       // and while reductions are waited for
  IntegerExpression partial_sums = 0;  // columns, of the products of a phase
  IntegerExpression most_pieces = 0;
  IntegerExpression kept = 0;  // bytes that a block hands to itself
  IntegerExpression most_kept = 0;
  IntegerExpression carries = 0;  // and that its threads carry
  IntegerExpression most_carries = 0;
  int64_t most_reductions = 0;
  bool unaligned = false;
  for (size_t i = 0; i < space.phases.size(); ++i) {
    if (!space.unlike[i]) continue;
    if (space.opens_side(i)) words = values = kept = carries = 0;
    IntegerExpression columns = 0;
    IntegerExpression of_phase = 0;  // registers of results
    IntegerExpression ahead = 0;     // of a left operand that is there before the product's own
    for (const ProductShape& product : space.phases[i].products) {
      const IntegerExpression across = space.tiles(i, product);
      const IntegerExpression along = space.pieces(product);
      words = words + kTileWords * across * along;
      unaligned = unaligned || product.k_bytes % kBytesOfLoad != 0;
      const IntegerExpression tile_sums = (4 + 4 * IntegerExpression(space.splits)) * row_tiles;
      const IntegerExpression results =
          across * (space.exact * (2 * kRowsAdded) + (1 - space.exact) * tile_sums);
      of_phase = max(of_phase, results) +
                 (product.added || space.phases[i].products.size() == 1 ? 0 : space.owns * results);
      const IntegerExpression operand = min(4 * row_tiles * along, left_words(space));
      left = max(left, ahead + operand + space.splits * (8 * row_tiles));
      ahead = product.exchanged && !product.early ? IntegerExpression(0) : operand;
      const IntegerExpression stored = product.added ? space.exact : 1;
      columns =
          columns + (1 - space.owns) * stored * (kTileGates * across * space.gate_warps + kPadding);
      most_pieces = max(most_pieces, along);
      if (product.stays && product.first) {
        const int64_t pieces = (product.k_bytes + kExchangePieceBytes - 1) / kExchangePieceBytes;
        kept = kept + space.has_segments(i) * ceil_div(space.group_rows, kExchangeTileRows) *
                          min(space.group_rows, kExchangeTileRows) *
                          (kStepsKept * pieces * kExchangePieceBytes);
      }
      if (product.exchanged && product.first) {
        const int64_t pieces = (product.k_bytes + kExchangePieceBytes - 1) / kExchangePieceBytes;
        kept = kept + space.clusters * (space.slots * kBytesOfBarrier +
                                        ceil_div(space.group_rows, kExchangeTileRows) *
                                            min(space.group_rows, kExchangeTileRows) *
                                            (space.slots * pieces * kExchangePieceBytes));
      }
    }
    partial_sums = max(partial_sums, columns);
    sums = max(sums, of_phase);
    most_reductions = std::max(most_reductions, space.phases[i].reductions);
    const IntegerExpression span = space.span_of(i);
    const IntegerExpression elements = space.elements_of_thread(i);
    const IntegerExpression loaded = 2 * space.phases[i].loaded + space.phases[i].gathered;
    const IntegerExpression carried = space.phases[i].kept * space.passes * elements;
    const IntegerExpression alike = space.are_passes_alike();
    carries = carries + alike * carried * (space.threads * kBytesOfWord);
    values = values + space.phases[i].fixed * span + (1 - alike) * carried + loaded * elements;
    if (space.phases[i].levels > 0) waiting = max(waiting, kValuesInWaiting * elements);
    weight_words = max(weight_words, words);
    most_values = max(most_values, values);
    most_kept = max(most_kept, kept);
    most_carries = max(most_carries, carries);
  }
  registers = max(sums + left, waiting) + most_values + kOtherRegisters;
  if (most_reductions > 0) registers = registers + kReducing;
  if (unaligned) registers = registers + kUnalignedRegisters;
  if (space.sides.size() > 2) registers = registers + kStackRegisters;
  const IntegerExpression sum_rows =
      space.rows -
      space.streams * (space.rows - 2 * ceil_div(min(space.rows, space.group_rows), 2));
  shared_bytes =
      2 * space.k_warps * sum_rows * partial_sums * kBytesOfWord +
      most_reductions * kBytesOfPart * space.rows + most_kept + most_carries +
      space.exact * space.warps * most_pieces * (kExchangeTileRows * kExchangePieceBytes);
  // As many whole tiles as there is room for.
  registers = registers + kStreamRegisters * IntegerExpression(space.streams);
  const IntegerExpression free = max(most_registers - registers, 0);
  const IntegerExpression room = kTileWords * ceil_div(free - (kTileWords - 1), kTileWords);
  const IntegerExpression bytes = space.threads * kBytesOfWord;  // of a word of each thread
  const IntegerExpression tile_bytes = kTileWords * bytes;
  const IntegerExpression shared = max(space.machine.shared_bytes - shared_bytes, 0);
  const IntegerExpression room_shared = kTileWords * ceil_div(shared - tile_bytes + 1, tile_bytes);
  weight_registers = min(weight_words, room);
  const IntegerExpression others = max(weight_words - room, 0);
  streamed_words = space.streams * max(others - room_shared, 0);
  weights_in_shared =
      ((1 - IntegerExpression(space.streams)) * others + space.streams * min(others, room_shared)) *
      bytes;
  weight_bytes = weight_words * bytes;
  streamed_bytes = streamed_words * bytes;
  room_for_weights = room * bytes + space.machine.shared_bytes - shared_bytes + streamed_bytes;
}

}  // namespace rnnc
