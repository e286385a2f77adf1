/// Aligned host memory with an owner.
#pragma once

#include <cstddef>
#include <utility>

#include "ir/base/status.h"

namespace rnnc::cpu {

/// At least `bytes` bytes aligned to 256, in huge pages where it is large and the system has them:
/// weights are walked through at every step, and small pages would cost address translations.
Result<void*> allocate_aligned(size_t bytes);
void release_aligned(void* memory);

class AlignedMemory {
 public:
  AlignedMemory() = default;
  static Result<AlignedMemory> allocate(size_t bytes) {
    auto data = allocate_aligned(bytes);
    if (!data) return tl::unexpected(data.error());
    AlignedMemory memory;
    memory.data_ = static_cast<std::byte*>(*data);
    return memory;
  }
  ~AlignedMemory() { release_aligned(data_); }
  AlignedMemory(AlignedMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  AlignedMemory& operator=(AlignedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

}  // namespace rnnc::cpu
