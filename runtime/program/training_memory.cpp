#include "runtime/program/training_memory.h"

#include <algorithm>

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
