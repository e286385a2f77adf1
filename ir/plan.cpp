#include "ir/plan.h"

namespace rnnc {

int64_t workspace_bytes(const Plan& plan, int64_t steps) {
  return plan.workspace_bytes + plan.workspace_bytes_per_step * steps;
}

int64_t byte_size(const Plan& plan, const Buffer& buffer) {
  constexpr int64_t kAlignment = 256;
  int64_t rows = 1;
  switch (buffer.extent) {
    case Extent::Invariant:
      break;
    case Extent::Batch:
    case Extent::Steps:
      rows = plan.batch;
      break;
    case Extent::Chunk:
      rows = (buffer.history + plan.chunk) * plan.batch;
      break;
  }
  const int64_t bytes = rows * buffer.width * static_cast<int64_t>(size_of(buffer.dtype));
  if (buffer.extent != Extent::Steps) return bytes;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace rnnc
