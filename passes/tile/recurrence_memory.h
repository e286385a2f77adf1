/// What a tile takes of each unit of the machine that has a block, as expressions over its space:
/// the block's footprint, and where there is room for its weights.
#pragma once

#include "passes/tile/recurrence_space.h"

namespace rnnc {

struct TileMemory {
  /// `spare_registers` of each thread are left free.
  TileMemory(const TileSpace& space, int64_t spare_registers);

  IntegerExpression registers;       // of a thread, without weights
  IntegerExpression most_registers;  // that it can have
  IntegerExpression shared_bytes;    // of the kernel, without weights and inputs…
  IntegerExpression reserved_bytes;  // …and that these leave to it, which is more
  IntegerExpression weight_words;    // of a thread
  IntegerExpression weight_registers = 0;
  IntegerExpression streamed_words = 0;
  IntegerExpression weight_bytes = 0;       // of a block…
  IntegerExpression streamed_bytes = 0;     // …of which come from memory
  IntegerExpression weights_in_shared = 0;  // bytes
  IntegerExpression room_for_weights = 0;   // bytes

 private:
  void place_weights(const TileSpace& space);
};

}  // namespace rnnc
