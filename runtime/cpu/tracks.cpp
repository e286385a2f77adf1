#include "runtime/cpu/tracks.h"

#include <algorithm>

#include "runtime/cpu/thread_pool.h"

namespace rnnc {

std::vector<std::vector<Track>> find_tracks(const Plan& plan) {
  std::vector<std::vector<Track>> sweeps(plan.sweeps);
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    if (stage.domain == Domain::Once) continue;
    std::vector<Track>& tracks = sweeps[stage.sweep];
    auto track = std::ranges::lower_bound(tracks, stage.lag, {}, &Track::lag);
    if (track == tracks.end() || track->lag != stage.lag) {
      track = tracks.insert(track, {.lag = stage.lag, .stages = {}});
    }
    track->stages.push_back(i);
  }
  return sweeps;
}

std::span<const Track> tracks_of_wave(std::span<const Track> tracks, int64_t wave, int64_t chunks) {
  const auto begin = std::ranges::upper_bound(tracks, wave - chunks, {}, &Track::lag);
  const auto end = std::ranges::upper_bound(tracks, wave, {}, &Track::lag);
  return {begin, end};
}

bool worth_side_by_side(std::span<const Track> tracks) {
  double alone = 0;
  double shared = 0;
  for (const Track& track : tracks) {
    alone = std::max(alone, track.alone);
    shared += track.shared;
  }
  return tracks.size() > 1 && alone + kHandOver < shared;
}

}  // namespace rnnc
