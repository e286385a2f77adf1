#include "runtime/cpu/tracks.h"

#include <algorithm>

#include "runtime/cpu/thread_pool.h"

namespace rnnc::cpu {

std::vector<std::vector<Track>> find_tracks(const Plan& plan) {
  std::vector<std::vector<Track>> sweeps(plan.sweeps);
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    if (!is_of_sweeps(stage.domain)) continue;
    std::vector<Track>& tracks = sweeps[stage.sweep];
    auto track = std::ranges::lower_bound(tracks, stage.lag, {}, &Track::lag);
    if (track == tracks.end() || track->lag != stage.lag) {
      track = tracks.insert(track, {.lag = stage.lag, .stages = {}});
    }
    track->stages.push_back(i);
  }
  return sweeps;
}

std::span<const Track> tracks_of_wave(std::span<const Track> tracks, const Wave& wave) {
  // Of lower lags the sequence has ended, of higher ones it has not begun.
  const auto runs = [&](const Track& track) { return wave.count(track.lag) > 0; };
  const auto begin = std::ranges::find_if(tracks, runs);
  return {begin, std::find_if_not(begin, tracks.end(), runs)};
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

}  // namespace rnnc::cpu
