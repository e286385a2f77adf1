#include "ir/plan.h"

namespace rnnc {

int64_t byte_size(const Plan& plan, const Buffer& buffer) {
  int64_t rows = 1;
  switch (buffer.extent) {
    case Extent::Invariant:
      break;
    case Extent::Batch:
      rows = plan.batch;
      break;
    case Extent::Chunk:
      rows = (buffer.history + plan.chunk) * plan.batch;
      break;
    case Extent::Steps:
      RNNC_CHECK(false, "buffer '{}': sequences of the caller have no fixed size", buffer.name);
  }
  return rows * buffer.width * static_cast<int64_t>(size_of(buffer.dtype));
}

}  // namespace rnnc
