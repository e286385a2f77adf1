#include "runtime/cpu/memory.h"

#include <sys/mman.h>

#include <cstdlib>

#include "ir/plan/alignment.h"

namespace rnnc::cpu {

Result<void*> allocate_aligned(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t alignment = bytes >= kHugePage ? kHugePage : kBufferAlignment;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = rounded < bytes ? nullptr : std::aligned_alloc(alignment, rounded);
  if (rounded > 0 && memory == nullptr)
    return fail_as(ErrorKind::OutOfMemory, "not enough memory for {} bytes", bytes);
#ifdef MADV_HUGEPAGE
  if (alignment == kHugePage) (void)madvise(memory, rounded, MADV_HUGEPAGE);
#endif
  return memory;
}

void release_aligned(void* memory) {
  std::free(memory);
}

}  // namespace rnnc::cpu
