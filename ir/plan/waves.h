/// Where steps lie and in which order they run: the arithmetic of ir/plan/plan.h's definition of
/// execution, said once for all that run a plan or reason about its runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "ir/base/arithmetic.h"
#include "ir/plan/plan.h"

namespace rnnc {

/// A step by the order in which steps run: `step` steps into the chunk that begins after
/// `chunk_start` steps.
struct Position {
  int64_t chunk_start = 0;
  int64_t step = 0;
  int64_t order() const { return chunk_start + step; }
};

/// The step of the sequence, of `steps` steps.
inline int64_t step_at(const Plan& plan, int64_t steps, Position position) {
  return plan.descending ? steps - 1 - position.order() : position.order();
}

/// Where row 0 of a launch over `count` steps from a position on is: at the first of them in the
/// sequence.
inline Position first_row_at(const Plan& plan, Position position, int64_t count) {
  if (plan.descending) position.step += count - 1;
  return position;
}

/// Steps from the start of a buffer to the one that an access with a delay touches at a position in
/// a sequence of `steps` steps, each of B rows; 0 for buffers without steps.
inline int64_t step_in_buffer(const Plan& plan, const Buffer& buffer, int64_t delay,
                              Position position, int64_t steps) {
  switch (buffer.extent) {
    case Extent::Steps:
      return step_at(plan, steps, position) + (plan.descending ? delay : -delay);
    case Extent::Chunk:
      return plan.descending ? plan.chunk - 1 - position.step + delay
                             : position.step + buffer.history - delay;
    case Extent::Invariant:
    case Extent::Batch:
      break;
  }
  return 0;
}

/// Elements from one step of a buffer to the one that runs next; 0 for buffers without steps.
inline int64_t elements_per_step(const Plan& plan, const Buffer& buffer) {
  const bool has_steps = buffer.extent == Extent::Steps || buffer.extent == Extent::Chunk;
  if (!has_steps) return 0;
  return (plan.descending ? -1 : 1) * plan.batch * buffer.width;
}

/// Elements from the start of a buffer to row 0 of an access at a position.
inline int64_t first_element(const Plan& plan, const Access& access, Position position,
                             int64_t steps) {
  const Buffer& buffer = plan.buffers[access.buffer];
  return step_in_buffer(plan, buffer, access.delay, position, steps) * plan.batch * buffer.width +
         access.column;
}

/// From one column of a turned buffer to the next: the rows of a whole chunk, and as many more as
/// make columns begin every multiple of 16 bytes.
inline constexpr int64_t kTurnedUnit = 4;
inline int64_t turned_rows(const Plan& plan) {
  return round_up(plan.chunk * plan.batch, kTurnedUnit);
}

/// The fewest steps after which a column is at a multiple of 16 bytes again.
inline int64_t turned_steps(const Plan& plan) {
  return kTurnedUnit / std::gcd(kTurnedUnit, plan.batch);
}

/// Whether the end of a wave of a sweep moves a buffer's last slots to its first.
inline bool keeps_history(const Buffer& buffer, uint32_t sweep) {
  return buffer.extent == Extent::Chunk && buffer.history > 0 && buffer.sweep == sweep;
}

/// What the end of a wave moves of such a buffer: slots [from, from + history) to [to, to + history).
/// The two may overlap: it moves as if slot by slot, each `chunk` slots on before what it came from
/// is written over.
struct HistoryMove {
  int64_t from = 0;
  int64_t to = 0;
};
inline HistoryMove history_move(const Plan& plan) {
  return plan.descending ? HistoryMove{0, plan.chunk} : HistoryMove{plan.chunk, 0};
}

/// Chunks of so many steps.
inline int64_t chunks_of(const Plan& plan, int64_t steps) {
  return (steps + plan.chunk - 1) / plan.chunk;
}

/// The greatest lag of a sweep's stages.
inline uint32_t last_lag(const Plan& plan, uint32_t sweep) {
  uint32_t last = 0;
  for (const Stage& stage : plan.stages) {
    if (is_of_sweeps(stage.domain) && stage.sweep == sweep) last = std::max(last, stage.lag);
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
