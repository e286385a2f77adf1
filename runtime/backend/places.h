/// Where the buffers of a plan lie during a call, whatever the device.
#pragma once

#include <cstddef>
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

  /// The addresses of buffers in resident memory.
  void use_resident(std::byte* resident);
  /// Zeros that states without a given value may start at, and how many bytes of them are needed.
  void use_zeros(std::byte* zeros) { zeros_ = zeros; }
  int64_t zero_bytes() const;
  /// All others, for the call.
  void bind(const Call& call);

  /// Whether the call's step reads the initial value where it is, so that `init_given` or
  /// `init_declared` is left out.
  bool reads_directly(size_t state) const { return states_[state].reads; }
  /// Whether it writes the caller's final value where that belongs; likewise `write_final`.
  bool writes_directly(size_t state) const { return states_[state].writes; }

 private:
  struct State {
    DirectState direct;
    bool reads = false;
    bool writes = false;
  };

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
  std::byte* zeros_ = nullptr;
  std::vector<BufferId> read_;  // the caller's arrays of sequences and states that a call reads
};

}  // namespace rnnc
