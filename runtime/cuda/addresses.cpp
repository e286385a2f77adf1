#include "runtime/cuda/addresses.h"

#include "ir/plan/alignment.h"

namespace rnnc::cuda {
Addresses::Addresses(const Plan& plan, char* program_memory)
    : plan_(plan), places_(plan, kBufferAlignment), slots_(places_.count(), -1) {
  places_.use_program_memory(reinterpret_cast<std::byte*>(program_memory));
  for (size_t place = 0; place < places_.count(); ++place) {
    if (places_.buffer_of(place).placement == Placement::Program) continue;
    slots_[place] = static_cast<int32_t>(movable_.size());
    movable_.push_back(place);
  }
  block_.resize(kCudaFirstSlot + movable_.size());
}

void Addresses::bind(const Call& call) {
  steps_ = call.steps;
  block_[1] = call.steps;
  places_.bind(call);
  for (size_t slot = 0; slot < movable_.size(); ++slot) {
    const size_t place = movable_[slot];
    block_[kCudaFirstSlot + slot] = reinterpret_cast<int64_t>(places_.address(place)) +
                                    first_step(places_.buffer_of(place), call.steps);
  }
}

/// Bytes from the start of a buffer to the step that runs first, of those that a call of another
/// length has elsewhere.
int64_t Addresses::first_step(const Buffer& buffer, int64_t steps) const {
  if (buffer.extent != Extent::Steps) return 0;
  return step_in_buffer(plan_, buffer, 0, {}, steps) * plan_.batch * buffer.width *
         static_cast<int64_t>(size_of(buffer.dtype));
}

/// Bytes from the start of its place.
int64_t Addresses::bytes_from(const Access& access, const Places::Row& row) const {
  return row.element * static_cast<int64_t>(size_of(buffer_of(access).dtype));
}

char* Addresses::pointer(const Access& access, LaunchPosition position) const {
  RNNC_CHECK(!position.replayed || is_fixed(access), "a graph has no address of '{}'",
             buffer_of(access).name);
  const Places::Row row = places_.row(access, position, steps_);
  return reinterpret_cast<char*>(places_.address(row.place)) + bytes_from(access, row);
}

CudaAccess Addresses::at(const Access& access, LaunchPosition position) const {
  if (access.buffer == kNoBuffer) return {};
  CudaAccess result{.address = 0, .per_step = 0, .stride = access.stride, .slot = -1};
  if (!position.replayed || is_fixed(access)) {
    result.address = reinterpret_cast<int64_t>(pointer(access, position));
    return result;
  }
  const Buffer& buffer = buffer_of(access);
  if (buffer.extent == Extent::Steps) {
    result.per_step =
        elements_per_step(plan_, buffer) * static_cast<int64_t>(size_of(buffer.dtype));
  }
  const Places::Row row = places_.row(access, position, steps_);
  result.address = bytes_from(access, row) - first_step(buffer, steps_);
  result.slot = slots_[row.place];
  return result;
}

}  // namespace rnnc::cuda
