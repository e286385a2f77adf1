#include "tests/cpu/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

#include "ir/base/status.h"

namespace {

std::atomic<int64_t> count = 0;

}  // namespace

// The forms of `new` for arrays and without exceptions call this one.
void* operator new(std::size_t bytes) {
  ++count;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  RNNC_CHECK(memory != nullptr, "no memory");
  return memory;
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}

namespace rnnc::test {

int64_t allocation_count() {
  return count;
}

}  // namespace rnnc::test
