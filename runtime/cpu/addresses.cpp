#include "runtime/cpu/addresses.h"

namespace rnnc::cpu {

void Addresses::find(const Call& call, std::byte* resident) {
  steps_ = call.steps;
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    buffers_[i] = memory_of(plan_.buffers[i], call, resident);
  }
}

std::byte* Addresses::memory_of(const Buffer& buffer, const Call& call, std::byte* resident) const {
  switch (buffer.placement) {
    case Placement::Workspace:
      return call.workspace + workspace_offset(plan_, buffer, call.steps);
    case Placement::Resident:
      return resident + buffer.offset;
    case Placement::Caller:
      break;
  }
  return call.arrays.at(buffer.role, buffer.slot);
}

std::byte* Addresses::locate(const Access& access, Position position) const {
  if (access.buffer == kNoBuffer) return nullptr;
  return buffers_[access.buffer] +
         first_element(plan_, access, position, steps_) *
             static_cast<int64_t>(size_of(plan_.buffers[access.buffer].dtype));
}

int64_t Addresses::bytes_per_step(const Access& access) const {
  if (access.buffer == kNoBuffer) return 0;
  const Buffer& buffer = plan_.buffers[access.buffer];
  return elements_per_step(plan_, buffer) * static_cast<int64_t>(size_of(buffer.dtype));
}

}  // namespace rnnc::cpu
