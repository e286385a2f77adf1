#include "runtime/backend/places.h"

#include <algorithm>
#include <cstdint>

#include "ir/plan/alignment.h"
#include "ir/plan/state_steps.h"

namespace rnnc {
namespace {

int64_t bytes_of(const Buffer& buffer, int64_t elements) {
  return elements * static_cast<int64_t>(size_of(buffer.dtype));
}

/// Writing more zeros takes longer than what a launch takes to begin.
constexpr int64_t kMostZeroBytes = int64_t{1} << 20;

int64_t bytes_of_step(const Plan& plan, const Buffer& buffer) {
  return bytes_of(buffer, plan.batch * buffer.width);
}

}  // namespace

Places::Places(const Plan& plan, size_t alignment)
    : plan_(plan), alignment_(alignment), halves_(plan.buffers.size(), 0) {
  for (BufferId id = 0; id < plan.buffers.size(); ++id) {
    buffers_.push_back(id);
    const Role role = plan.buffers[id].role;
    if (role == Role::Input || role == Role::InitialState) read_.push_back(id);
  }
  for (DirectState& direct : find_direct_states(plan)) {
    if (direct.starts_at_zero) {
      direct.starts_at_zero = bytes_of_step(plan, plan.buffers[direct.initial]) <= kMostZeroBytes;
    }
    states_.push_back({.direct = direct, .slot = slot_of(plan, states_.size())});
    for (const BufferId id : {direct.initial, direct.final}) add_halves(id);
  }
  addresses_.resize(buffers_.size(), nullptr);
}

void Places::add_halves(BufferId id) {
  const bool has_steps = id != kNoBuffer && plan_.buffers[id].extent == Extent::Chunk;
  if (!has_steps || halves_[id] != 0) return;
  halves_[id] = buffers_.size();
  buffers_.insert(buffers_.end(), 2, id);
}

Places::Row Places::row(const Access& access, Position position, int64_t steps) const {
  const size_t halves = halves_[access.buffer];
  if (halves == 0) return {access.buffer, first_element(plan_, access, position, steps)};
  const int64_t step = position.step - static_cast<int64_t>(access.delay);
  if (step < 0) return {halves, access.column};
  const Buffer& buffer = plan_.buffers[access.buffer];
  return {halves + 1, step * elements_per_step(plan_, buffer) + access.column};
}

/// Of the state that has most.
int64_t Places::zero_bytes() const {
  int64_t most = 0;
  for (const State& state : states_) {
    if (!state.direct.starts_at_zero) continue;
    most = std::max(most, bytes_of_step(plan_, plan_.buffers[state.direct.initial]));
  }
  return most;
}

size_t Places::program_bytes() const {
  return static_cast<size_t>(aligned_size(plan_.program_bytes) + zero_bytes());
}

void Places::use_program_memory(std::byte* memory) {
  for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
    const Buffer& buffer = plan_.buffers[id];
    if (buffer.placement == Placement::Program) addresses_[id] = memory + buffer.offset;
  }
  const auto zeros = static_cast<size_t>(aligned_size(plan_.program_bytes));
  zeros_ = {memory + zeros, program_bytes() - zeros};
}

void Places::bind(const Call& call) {
  for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
    const Buffer& buffer = plan_.buffers[id];
    if (buffer.placement == Placement::Caller) {
      addresses_[id] = call.arrays.at(buffer.role, buffer.slot);
    } else if (buffer.placement == Placement::Workspace) {
      addresses_[id] = call.workspace + workspace_offset(plan_, buffer, call.steps);
    }
    if (halves_[id] != 0) place_halves(id);
  }
  for (uint32_t i = 0; i < states_.size(); ++i) bind_state(i, call);
}

/// In the buffer itself.
void Places::place_halves(BufferId id) {
  const Buffer& buffer = plan_.buffers[id];
  for (const uint32_t delay : {1, 0}) {
    const Access access{.buffer = id, .delay = delay};
    addresses_[halves_[id] + 1 - delay] =
        addresses_[id] + bytes_of(buffer, first_element(plan_, access, {}, 1));
  }
}

/// In a call of one step, in the caller's arrays, if there are any.
void Places::bind_state(uint32_t index, const Call& call) {
  State& state = states_[index];
  const auto& [initial, starts_at_zero, final] = state.direct;
  const bool one = call.steps == 1;
  std::byte* given = call.arrays.at(Role::InitialState, state.slot);
  if (given == nullptr && starts_at_zero) given = zeros_.data();
  state.copies_initial = !one || initial == kNoBuffer || !is_usable(given);
  if (!state.copies_initial) {
    addresses_[halves_[initial] == 0 ? initial : halves_[initial]] = given;
  }
  std::byte* const wanted = call.arrays.at(Role::FinalState, state.slot);
  state.copies_final = wanted != nullptr;
  if (!one || final == kNoBuffer || !is_usable(wanted)) return;
  const Buffer& buffer = plan_.buffers[final];
  if (is_read(wanted, bytes_of_step(plan_, buffer), call)) return;
  state.copies_final = false;
  addresses_[halves_[final] == 0 ? final : halves_[final] + 1] = wanted;
}

bool Places::is_usable(const std::byte* array) const {
  return array != nullptr && reinterpret_cast<uintptr_t>(array) % alignment_ == 0;
}

/// Whether the call, which has one step, reads some of this memory of the caller's.
bool Places::is_read(const std::byte* begin, int64_t bytes, const Call& call) const {
  return std::ranges::any_of(read_, [&](BufferId id) {
    const Buffer& buffer = plan_.buffers[id];
    const std::byte* const other = call.arrays.at(buffer.role, buffer.slot);
    const int64_t other_bytes = bytes_of_step(plan_, buffer);
    return other != nullptr && other < begin + bytes && begin < other + other_bytes;
  });
}

}  // namespace rnnc
