#include "tests/emulator/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tests/emulator/emulator.h"

namespace rnnc::emulator {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kGuardBytes = 512;
constexpr std::byte kGuard{0xa5};

}  // namespace

void* DeviceMemory::allocate(size_t bytes) {
  if (bytes > free_bytes()) return nullptr;
  const size_t all = bytes + 2 * kGuardBytes + kAlignment;
  Piece piece = {std::make_unique_for_overwrite<std::byte[]>(all), bytes};
  std::byte* const start = piece.bytes.get();
  const size_t misaligned = reinterpret_cast<uintptr_t>(start) % kAlignment;
  std::byte* const memory = start + kGuardBytes + (kAlignment - misaligned);
  std::memset(start, static_cast<int>(kGuard), all);
  std::memset(memory, 0xff, bytes);
  pieces_.emplace(memory, std::move(piece));
  used_ += bytes;
  return memory;
}

bool DeviceMemory::free(void* memory) {
  const auto found = pieces_.find(static_cast<std::byte*>(memory));
  if (found == pieces_.end()) return false;
  check_guards(found->first, found->second.size);
  used_ -= found->second.size;
  pieces_.erase(found);
  return true;
}

void DeviceMemory::check_guards() const {
  for (const auto& [memory, piece] : pieces_) check_guards(memory, piece.size);
}

void DeviceMemory::check_guards(const std::byte* memory, size_t size) {
  const auto changed = [](std::byte byte) { return byte != kGuard; };
  const std::byte* const end = memory + size;
  if (const auto* at = std::find_if(end, end + kGuardBytes, changed); at != end + kGuardBytes) {
    add_fault(fmt::format("something wrote {} bytes past the end of {} bytes of device memory",
                          at - end, size));
  }
  if (std::any_of(memory - kGuardBytes, memory, changed)) {
    add_fault(fmt::format("something wrote before the start of {} bytes of device memory", size));
  }
}

size_t DeviceMemory::room_at(const void* memory) const {
  const auto* const address = static_cast<const std::byte*>(memory);
  auto found = pieces_.upper_bound(address);
  if (found == pieces_.begin()) return 0;
  --found;
  const auto offset = static_cast<size_t>(address - found->first);
  return offset < found->second.size ? found->second.size - offset : 0;
}

}  // namespace rnnc::emulator
