#include "runtime/cuda/addresses.h"

namespace rnnc {
namespace {

char* caller_pointer(const Buffer& buffer, const ForwardArgs& args) {
  const auto readable = [&buffer](std::span<const void* const> pointers) {
    return pointers.empty() ? nullptr
                            : static_cast<char*>(const_cast<void*>(pointers[buffer.slot]));
  };
  const auto writable = [&buffer](std::span<void* const> pointers) {
    return pointers.empty() ? nullptr : static_cast<char*>(pointers[buffer.slot]);
  };
  switch (buffer.role) {
    case Role::Input:
      return readable(args.inputs);
    case Role::Param:
      return readable(args.params);
    case Role::Output:
      return writable(args.outputs);
    case Role::InitialState:
      return readable(args.initial_states);
    case Role::FinalState:
      return writable(args.final_states);
    case Role::Temporary:
      break;
  }
  RNNC_CHECK(false, "the caller owns no temporary");
}

}  // namespace

Addresses::Addresses(const Plan& plan, char* resident)
    : plan_(plan), bases_(plan.buffers.size()), slots_(plan.buffers.size(), -1) {
  for (BufferId id = 0; id < plan.buffers.size(); ++id) {
    const Buffer& buffer = plan.buffers[id];
    if (buffer.placement == Placement::Resident) {
      bases_[id] = resident + buffer.offset;
    } else {
      slots_[id] = static_cast<int32_t>(movable_.size());
      movable_.push_back(id);
    }
  }
  block_.resize(kCudaFirstSlot + movable_.size());
}

void Addresses::bind(const ForwardArgs& args) {
  block_[1] = args.steps;
  for (size_t slot = 0; slot < movable_.size(); ++slot) {
    const BufferId id = movable_[slot];
    const Buffer& buffer = plan_.buffers[id];
    const int64_t offset = buffer.extent == Extent::Steps
                               ? plan_.workspace_bytes + buffer.offset * args.steps
                               : buffer.offset;
    bases_[id] = buffer.placement == Placement::Caller
                     ? caller_pointer(buffer, args)
                     : static_cast<char*>(args.workspace) + offset;
    block_[kCudaFirstSlot + slot] = reinterpret_cast<int64_t>(bases_[id]);
  }
}

/// Bytes from the start of the buffer to row 0.
int64_t Addresses::offset(const Access& access, Position position) const {
  const Buffer& buffer = buffer_of(access);
  int64_t steps = 0;
  if (buffer.extent == Extent::Chunk) steps = position.step + buffer.history - access.delay;
  if (buffer.extent == Extent::Steps) steps = position.chunk_start + position.step - access.delay;
  return (steps * plan_.batch * buffer.width + access.column) *
         static_cast<int64_t>(size_of(buffer.dtype));
}

char* Addresses::pointer(const Access& access, Position position) const {
  RNNC_CHECK(!position.replayed || is_resident(access), "a graph has no address of '{}'",
             buffer_of(access).name);
  return bases_[access.buffer] + offset(access, position);
}

CudaAccess Addresses::at(const Access& access, Position position) const {
  if (access.buffer == kNoBuffer) return {};
  CudaAccess result{.address = 0, .per_step = 0, .stride = access.stride, .slot = -1};
  if (!position.replayed || is_resident(access)) {
    result.address = reinterpret_cast<int64_t>(pointer(access, position));
    return result;
  }
  const Buffer& buffer = buffer_of(access);
  if (buffer.extent == Extent::Steps) {
    result.per_step = plan_.batch * buffer.width * static_cast<int64_t>(size_of(buffer.dtype));
  }
  result.address = offset(access, position);
  result.slot = slots_[access.buffer];
  return result;
}

}  // namespace rnnc
