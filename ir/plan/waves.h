/// Where steps lie and in which order they run: the arithmetic of ir/plan/plan.h's definition of
/// execution, said once for all that run a plan or reason about its runs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ir/plan/plan.h"

namespace rnnc {

/// Step t = chunk_start + step: `step` steps after the start of the chunk at `chunk_start`.
struct Position {
  int64_t chunk_start = 0;
  int64_t step = 0;
  int64_t t() const { return chunk_start + step; }
};

/// Steps from the start of a buffer to the one that an access with a delay touches at a position,
/// each of B rows; 0 for buffers without steps.
inline int64_t step_in_buffer(const Buffer& buffer, int64_t delay, Position position) {
  switch (buffer.extent) {
    case Extent::Steps:
      return position.t() - delay;
    case Extent::Chunk:
      return position.step + buffer.history - delay;
    case Extent::Invariant:
    case Extent::Batch:
      break;
  }
  return 0;
}

/// Elements from one step of a buffer to the next one that runs; 0 for buffers without steps.
inline int64_t elements_per_step(const Plan& plan, const Buffer& buffer) {
  const bool steps = buffer.extent == Extent::Steps || buffer.extent == Extent::Chunk;
  return steps ? plan.batch * buffer.width : 0;
}

/// Elements from the start of a buffer to row 0 of an access.
inline int64_t first_element(const Plan& plan, const Access& access, Position position) {
  const Buffer& buffer = plan.buffers[access.buffer];
  return step_in_buffer(buffer, access.delay, position) * plan.batch * buffer.width + access.column;
}

/// Whether the end of a wave of a sweep moves a buffer's last slots to its first.
inline bool keeps_history(const Buffer& buffer, uint32_t sweep) {
  return buffer.extent == Extent::Chunk && buffer.history > 0 && buffer.sweep == sweep;
}

/// Chunks of so many steps.
inline int64_t chunks_of(const Plan& plan, int64_t steps) {
  return (steps + plan.chunk - 1) / plan.chunk;
}

/// The greatest lag of a sweep's stages.
inline uint32_t last_lag(const Plan& plan, uint32_t sweep) {
  uint32_t last = 0;
  for (const Stage& stage : plan.stages) {
    if (stage.sweep == sweep) last = std::max(last, stage.lag);
  }
  return last;
}

/// Where the stages of each lag are in the sequence.
struct Wave {
  int64_t index = 0;
  int64_t chunk = 0;  // C
  int64_t steps = 0;  // T

  /// First step of a lag's chunk, in the order in which steps run.
  int64_t start(uint32_t lag) const { return (index - lag) * chunk; }
  /// Steps of a lag's chunk, 0 if it has none in this wave.
  int64_t count(uint32_t lag) const {
    return start(lag) < 0 ? 0 : std::clamp<int64_t>(steps - start(lag), 0, chunk);
  }
  Position position(uint32_t lag, int64_t step = 0) const { return {start(lag), step}; }
  /// Whether a lag is at its first chunk: its states begin.
  bool begins(uint32_t lag) const { return start(lag) == 0; }
  /// Whether a lag is at its last chunk: its states end, at `position(lag, count(lag))`.
  bool ends(uint32_t lag) const { return count(lag) > 0 && start(lag) + count(lag) == steps; }
};

/// The waves of a sweep over so many steps, in order: `for (const Wave& wave : Waves(…))`.
class Waves {
 public:
  Waves(const Plan& plan, uint32_t sweep, int64_t steps)
      : first_{.chunk = plan.chunk, .steps = steps},
        count_(chunks_of(plan, steps) + last_lag(plan, sweep)) {}

  int64_t count() const { return count_; }
  bool is_last(const Wave& wave) const { return wave.index + 1 == count_; }

  struct Iterator {
    Wave wave;
    const Wave& operator*() const { return wave; }
    Iterator& operator++() {
      ++wave.index;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return wave.index != other.wave.index; }
  };
  Iterator begin() const { return {first_}; }
  Iterator end() const {
    Wave behind = first_;
    behind.index = count_;
    return {behind};
  }

 private:
  Wave first_;
  int64_t count_;
};

}  // namespace rnnc
