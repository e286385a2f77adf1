/// The recurrences of a wavefront, which may run side by side, each on one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/plan/waves.h"

namespace rnnc::cpu {

/// The stages of one lag of a sweep, in order.
struct Track {
  uint32_t lag = 0;
  std::vector<size_t> stages;  // of the plan
  double alone = 0;            // estimated nanoseconds of a chunk on one thread
  double shared = 0;           // of each launch on all threads
};

/// Per sweep, by lag.
std::vector<std::vector<Track>> find_tracks(const Plan& plan);

/// Those that have a chunk in this wave.
std::span<const Track> tracks_of_wave(std::span<const Track> tracks, const Wave& wave);

/// Whether one thread each for the tracks is estimated faster than all threads for one after the
/// other.
bool worth_side_by_side(std::span<const Track> tracks);

}  // namespace rnnc::cpu
