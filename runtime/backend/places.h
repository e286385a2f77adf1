/// Where the buffers of a plan lie during a call, whatever the device.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ir/plan/direct_states.h"
#include "ir/plan/waves.h"
#include "runtime/backend/backend.h"

namespace rnnc {

/// Each buffer has a place, which a call gives an address. A history that may be the caller's arrays
/// (ir/plan/direct_states.h) has two more, of which accesses lie in the one or the other: for the
/// step before the call's chunk, and for the chunk's steps.
class Places {
 public:
  /// `plan` outlives this. The caller's arrays are taken for buffers of the plan's own if they are
  /// aligned to so many bytes.
  Places(const Plan& plan, size_t alignment);

  /// Those of buffers come first, as these are numbered.
  size_t count() const { return buffers_.size(); }
  const Buffer& buffer_of(size_t place) const { return plan_.buffers[buffers_[place]]; }
  std::byte* address(size_t place) const { return addresses_[place]; }

  struct Row {
    size_t place = 0;
    int64_t element = 0;  // from the place's address
  };
  /// Row 0 of an access.
  Row row(const Access& access, Position position, int64_t steps) const;

  /// Of memory that is the program's own: its buffers', and behind them zeros.
  size_t program_bytes() const;
  /// Such memory, whose zeros are to be written before the first call.
  void use_program_memory(std::byte* memory);
  /// What states without a given value may begin at.
  std::span<std::byte> zeros() const { return zeros_; }
  /// All others, for the call.
  void bind(const Call& call);

  /// The caller's, or null.
  const std::byte* initial_value(size_t state, const Call& call) const {
    return call.arrays.at(Role::InitialState, states_[state].slot);
  }
  /// Whether `init_given` or `init_declared` must run: the step does not read the value where it is.
  bool copies_initial(size_t state) const { return states_[state].copies_initial; }
  /// Whether `write_final` must run: the value is asked for, and not written where it belongs.
  bool copies_final(size_t state) const { return states_[state].copies_final; }

 private:
  struct State {
    DirectState direct;
    uint32_t slot = 0;  // of the caller's arrays
    bool copies_initial = true;
    bool copies_final = true;
  };

  int64_t zero_bytes() const;
  void add_halves(BufferId id);
  void place_halves(BufferId id);
  void bind_state(uint32_t index, const Call& call);
  bool is_usable(const std::byte* array) const;
  bool is_read(const std::byte* begin, int64_t bytes, const Call& call) const;

  const Plan& plan_;
  const size_t alignment_;
  std::vector<BufferId> buffers_;      // per place
  std::vector<std::byte*> addresses_;  // per place
  std::vector<size_t> halves_;         // per buffer: the first of its two places more, or 0
  std::vector<State> states_;
  std::span<std::byte> zeros_;
  std::vector<BufferId> read_;  // the caller's arrays of sequences and states that a call reads
};

}  // namespace rnnc
