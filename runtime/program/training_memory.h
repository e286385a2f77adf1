/// How a training call's sequences are cut into pieces, and its memory into arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/arrays/signature.h"
#include "runtime/program/training_options.h"

namespace rnnc {

/// Steps [begin, begin + steps) of a call's sequences.
struct Piece {
  int64_t begin = 0;
  int64_t steps = 0;
};

/// A call's pieces, of which the first may be shorter: a backward half counts its chunks from the
/// end.
struct Pieces {
  int64_t steps = 0;   // of the call
  int64_t length = 0;  // of a piece

  int64_t count() const { return (steps + length - 1) / length; }
  int64_t last() const { return count() - 1; }
  Piece at(int64_t index) const;
};

/// Bytes of a row: of one step of one sequence, or of one sequence's state.
size_t row_bytes(const ArrayInfo& info);

/// Arrays of equally many rows that lie one behind the other, each aligned as plans' buffers are.
class PackedArrays {
 public:
  PackedArrays() = default;
  explicit PackedArrays(const std::vector<ArrayInfo>& infos);
  void add(size_t row_bytes) { row_bytes_.push_back(row_bytes); }

  size_t count() const { return row_bytes_.size(); }
  size_t bytes(int64_t rows) const;
  size_t most_row_bytes() const;
  size_t all_row_bytes() const;
  /// Appends where each begins, the first at `first`.
  void append_addresses(std::byte* first, int64_t rows, std::vector<const void*>& addresses) const;

 private:
  std::vector<size_t> row_bytes_;
};

/// Of a reserve with `residuals` of every step.
ReserveBound bound_of_residuals(const PackedArrays& residuals);
/// Of one with the `states` at every so many steps.
ReserveBound bound_of_checkpoints(const PackedArrays& states, int64_t steps);

/// Offsets of parts that lie one behind the other, from where a memory is aligned on.
class MemoryParts {
 public:
  size_t add(size_t bytes);
  /// Of all parts, and room to align the first; 0 of nothing.
  size_t bytes() const;

 private:
  size_t end_ = 0;
};

}  // namespace rnnc
