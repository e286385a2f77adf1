#include "runtime/cpu/addresses.h"

namespace rnnc::cpu {

void Addresses::find(const Call& call) {
  steps_ = call.steps;
  places_.bind(call);
}

std::byte* Addresses::locate(const Access& access, Position position) const {
  if (access.buffer == kNoBuffer) return nullptr;
  const Places::Row row = places_.row(access, position, steps_);
  return places_.address(row.place) +
         row.element * static_cast<int64_t>(size_of(plan_.buffers[access.buffer].dtype));
}

int64_t Addresses::bytes_per_step(const Access& access) const {
  if (access.buffer == kNoBuffer) return 0;
  const Buffer& buffer = plan_.buffers[access.buffer];
  return elements_per_step(plan_, buffer) * static_cast<int64_t>(size_of(buffer.dtype));
}

}  // namespace rnnc::cpu
