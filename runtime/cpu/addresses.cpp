#include "runtime/cpu/addresses.h"

namespace rnnc {

void Addresses::find(const ForwardArgs& args, std::byte* resident) {
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    buffers_[i] = memory_of(plan_.buffers[i], args, resident);
  }
}

std::byte* Addresses::memory_of(const Buffer& buffer, const ForwardArgs& args,
                                std::byte* resident) const {
  const auto bytes = [](const void* pointer) {
    return static_cast<std::byte*>(const_cast<void*>(pointer));
  };
  switch (buffer.placement) {
    case Placement::Workspace:
      return bytes(args.workspace) + (buffer.extent == Extent::Steps
                                          ? plan_.workspace_bytes + buffer.offset * args.steps
                                          : buffer.offset);
    case Placement::Resident:
      return resident + buffer.offset;
    case Placement::Caller:
      break;
  }
  switch (buffer.role) {
    case Role::Input:
      return bytes(args.inputs[buffer.slot]);
    case Role::Param:
      return bytes(args.params[buffer.slot]);
    case Role::Output:
      return bytes(args.outputs[buffer.slot]);
    case Role::InitialState:
      return bytes(args.initial_states[buffer.slot]);
    case Role::FinalState:
      return bytes(args.final_states[buffer.slot]);
    case Role::Temporary:
      break;
  }
  RNNC_CHECK(false, "the caller owns no temporaries");
}

std::byte* Addresses::locate(const Access& access, Position position) const {
  if (access.buffer == kNoBuffer) return nullptr;
  const Buffer& buffer = plan_.buffers[access.buffer];
  int64_t step = 0;
  switch (buffer.extent) {
    case Extent::Invariant:
    case Extent::Batch:
      break;
    case Extent::Steps:
      step = position.t - access.delay;
      break;
    case Extent::Chunk:
      step = position.t - position.t0 + buffer.history - access.delay;
      break;
  }
  return buffers_[access.buffer] + (step * plan_.batch * buffer.width + access.column) *
                                       static_cast<int64_t>(size_of(buffer.dtype));
}

int64_t Addresses::bytes_per_step(const Access& access) const {
  if (access.buffer == kNoBuffer) return 0;
  const Buffer& buffer = plan_.buffers[access.buffer];
  if (buffer.extent != Extent::Steps && buffer.extent != Extent::Chunk) return 0;
  return plan_.batch * buffer.width * static_cast<int64_t>(size_of(buffer.dtype));
}

}  // namespace rnnc
