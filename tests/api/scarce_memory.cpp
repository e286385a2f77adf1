#include <cstdint>
#include <cstdlib>
#include <new>

#include "tests/api/calls.h"

namespace {

thread_local size_t most_bytes = SIZE_MAX;

}  // namespace

namespace rnnc::test {

ScarceMemory::ScarceMemory(size_t bytes) {
  most_bytes = bytes;
}
ScarceMemory::~ScarceMemory() {
  most_bytes = SIZE_MAX;
}

}  // namespace rnnc::test

void* operator new(size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return bytes < most_bytes ? std::malloc(bytes == 0 ? 1 : bytes) : nullptr;
}
void* operator new(size_t bytes) {
  void* memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}
