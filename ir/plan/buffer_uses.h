/// Who reads and writes each buffer of a plan: what compilers call def-use chains. Passes that ask
/// whether something else needs a value ask this, and count nothing themselves.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// plan.stages[stage].launches[launch].
struct LaunchPlace {
  size_t stage = 0;
  size_t launch = 0;
  friend auto operator<=>(const LaunchPlace&, const LaunchPlace&) = default;
};

struct BufferUse {
  /// Where the launch is; none: it begins or ends a state (StatePlan).
  std::optional<LaunchPlace> place;
  bool write = false;
  friend bool operator==(const BufferUse&, const BufferUse&) = default;
};

/// Of a plan as it was when this was made; it does not refer to the plan.
class BufferUses {
 public:
  explicit BufferUses(const Plan& plan);

  /// One for each Touch (ir/plan/plan_touches.h), in order of execution, those of states last. None
  /// of buffers that have come since.
  std::span<const BufferUse> of(BufferId buffer) const;

  bool is_read(BufferId buffer) const;
  /// The launch that is the only one to write it, if no launch of a state's touches it.
  std::optional<LaunchPlace> only_writer(BufferId buffer) const;
  /// Whether no launches but these touch it.
  bool are_of(BufferId buffer, std::span<const LaunchPlace> launches) const;

 private:
  std::vector<std::vector<BufferUse>> uses_;  // by buffer
};

/// What launches read and write, of any of their steps.
struct TouchedBuffers {
  std::set<BufferId> read, written;

  void add(const Plan& plan, const Launch& launch);
};

/// Whether neither needs to come before the other.
bool are_independent(const TouchedBuffers& a, const TouchedBuffers& b);

}  // namespace rnnc
