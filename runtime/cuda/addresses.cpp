#include "runtime/cuda/addresses.h"

namespace rnnc::cuda {
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

void Addresses::bind(const Call& call) {
  steps_ = call.steps;
  block_[1] = call.steps;
  for (size_t slot = 0; slot < movable_.size(); ++slot) {
    const BufferId id = movable_[slot];
    const Buffer& buffer = plan_.buffers[id];
    std::byte* const memory = buffer.placement == Placement::Caller
                                  ? call.arrays.at(buffer.role, buffer.slot)
                                  : call.workspace + workspace_offset(plan_, buffer, call.steps);
    bases_[id] = reinterpret_cast<char*>(memory);
    block_[kCudaFirstSlot + slot] =
        reinterpret_cast<int64_t>(memory) + first_step(buffer, call.steps);
  }
}

/// Bytes from the start of a buffer to the step that runs first, of those that a call of another
/// length has elsewhere.
int64_t Addresses::first_step(const Buffer& buffer, int64_t steps) const {
  if (buffer.extent != Extent::Steps) return 0;
  return step_in_buffer(plan_, buffer, 0, {}, steps) * plan_.batch * buffer.width *
         static_cast<int64_t>(size_of(buffer.dtype));
}

/// Bytes from the start of the buffer to row 0.
int64_t Addresses::offset(const Access& access, Position position, int64_t steps) const {
  return first_element(plan_, access, position, steps) *
         static_cast<int64_t>(size_of(buffer_of(access).dtype));
}

char* Addresses::pointer(const Access& access, LaunchPosition position) const {
  RNNC_CHECK(!position.replayed || is_resident(access), "a graph has no address of '{}'",
             buffer_of(access).name);
  return bases_[access.buffer] + offset(access, position, steps_);
}

CudaAccess Addresses::at(const Access& access, LaunchPosition position) const {
  if (access.buffer == kNoBuffer) return {};
  CudaAccess result{.address = 0, .per_step = 0, .stride = access.stride, .slot = -1};
  if (!position.replayed || is_resident(access)) {
    result.address = reinterpret_cast<int64_t>(pointer(access, position));
    return result;
  }
  const Buffer& buffer = buffer_of(access);
  if (buffer.extent == Extent::Steps) {
    result.per_step =
        elements_per_step(plan_, buffer) * static_cast<int64_t>(size_of(buffer.dtype));
  }
  result.address = offset(access, position, steps_) - first_step(buffer, steps_);
  result.slot = slots_[access.buffer];
  return result;
}

}  // namespace rnnc::cuda
