/// When the contents of a plan's buffers matter.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// When memory is in use. Time is counted in launches, in the plan's order; a section is all the
/// Once stages, or a sweep.
struct UseTime {
  static constexpr uint32_t kEveryLag = UINT32_MAX;

  uint32_t begin = 0;  // the first launch that needs it
  uint32_t end = 0;    // and the last
  uint32_t section = 0;
  /// Launches of different lags of a section may run at any time relative to each other. What lives
  /// through whole sections is of every lag.
  uint32_t lag = kEveryLag;
};

/// Whether the two are in use at the same time, or may be.
inline bool overlap(const UseTime& a, const UseTime& b) {
  if (a.begin <= b.end && b.begin <= a.end) return true;
  return a.section == b.section && a.lag != b.lag;
}

/// Of one buffer, or of several that follow each other in one place.
struct Lifetime : UseTime {
  std::vector<BufferId> buffers;  // of equal size
  int64_t bytes = 0;              // a multiple of 256
};

/// The most bytes that are in use at the same time, if lags are at their worst together.
int64_t live_bytes(const std::vector<Lifetime>& lifetimes);

/// The pieces of memory that offsets are relative to.
enum class Arena : uint8_t { Workspace, WorkspacePerStep, Program };
inline constexpr Arena kArenas[] = {Arena::Workspace, Arena::WorkspacePerStep, Arena::Program};
bool is_in(const Buffer& buffer, Arena arena);
/// Bytes of a buffer, or bytes per step, rounded up to the alignment of offsets.
int64_t aligned_size(const Plan& plan, const Buffer& buffer);

/// Of the buffers in that memory. Those that nothing touches are left out.
std::vector<Lifetime> find_lifetimes(const Plan& plan, Arena arena);

}  // namespace rnnc
