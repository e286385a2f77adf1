#include "runtime/program/training_memory.h"

#include <algorithm>
#include <numeric>

#include "ir/base/arithmetic.h"
#include "ir/plan/alignment.h"
#include "runtime/backend/backend.h"

namespace rnnc {

Piece Pieces::at(int64_t index) const {
  const int64_t end = steps - (last() - index) * length;
  const int64_t begin = std::max<int64_t>(end - length, 0);
  return {begin, end - begin};
}

size_t row_bytes(const ArrayInfo& info) {
  return static_cast<size_t>(info.elements()) * size_of(info.dtype);
}

PackedArrays::PackedArrays(const std::vector<ArrayInfo>& infos) {
  for (const ArrayInfo& info : infos) add(row_bytes(info));
}

size_t PackedArrays::bytes(int64_t rows) const {
  size_t bytes = 0;
  for (const size_t row : row_bytes_) bytes += aligned_size(static_cast<size_t>(rows) * row);
  return bytes;
}

size_t PackedArrays::most_row_bytes() const {
  return row_bytes_.empty() ? 0 : *std::ranges::max_element(row_bytes_);
}

size_t PackedArrays::all_row_bytes() const {
  return std::accumulate(row_bytes_.begin(), row_bytes_.end(), size_t{0});
}

ReserveBound bound_of_residuals(const PackedArrays& residuals) {
  return {.fixed = kWorkspaceAlignment * (residuals.count() + 1),
          .per_step = 0,
          .per_sequence = 0,
          .per_row = residuals.all_row_bytes()};
}

/// There are at most T / K + 1 checkpoints.
ReserveBound bound_of_checkpoints(const PackedArrays& states, int64_t steps) {
  const size_t gaps = kWorkspaceAlignment * states.count();
  const auto per_step = [&](size_t bytes) {
    return static_cast<size_t>(ceil_div(static_cast<int64_t>(bytes), steps));
  };
  return {.fixed = kWorkspaceAlignment + gaps,
          .per_step = per_step(gaps),
          .per_sequence = states.all_row_bytes(),
          .per_row = per_step(states.all_row_bytes())};
}

void PackedArrays::append_addresses(std::byte* first, int64_t rows,
                                    std::vector<const void*>& addresses) const {
  for (const size_t row : row_bytes_) {
    addresses.push_back(first);
    first += aligned_size(static_cast<size_t>(rows) * row);
  }
}

size_t MemoryParts::add(size_t bytes) {
  const size_t begin = end_;
  end_ += aligned_size(bytes);
  return begin;
}

size_t MemoryParts::bytes() const {
  return end_ == 0 ? 0 : end_ + kWorkspaceAlignment - 1;
}

}  // namespace rnnc
