/// Memory of the emulated device: the host's, with guards around each piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace rnnc::emulator {

class DeviceMemory {
 public:
  static constexpr size_t kTotalBytes = size_t{4} << 30;

  /// Filled with ones, which are NaN in every type. Null if there is too little.
  void* allocate(size_t bytes);
  /// Whether there was such a piece. Finds what was written beside it.
  bool free(void* memory);
  void check_guards() const;

  size_t free_bytes() const { return kTotalBytes - used_; }
  bool contains(const void* memory) const { return room_at(memory) > 0; }
  /// Bytes from an address to the end of its piece; 0 if it is in none.
  size_t room_at(const void* memory) const;

 private:
  struct Piece {
    std::unique_ptr<std::byte[]> bytes;
    size_t size = 0;
  };
  static void check_guards(const std::byte* memory, size_t size);

  std::map<const std::byte*, Piece> pieces_;
  size_t used_ = 0;
};

}  // namespace rnnc::emulator
