/// A wave as a GPU's executable goes through it.
#pragma once

#include <algorithm>

#include "runtime/cuda/addresses.h"
#include "runtime/cuda/rounds.h"

namespace rnnc::cuda {

/// A wave that is launched, or recorded in a graph: then as any wave, whose chunks are whole.
struct CudaWave : Wave {
  bool replayed = false;

  /// Whether a lag may be at its last chunk.
  bool may_end() const { return start(0) + chunk >= steps; }
  int64_t count(uint32_t lag) const { return replayed ? chunk : Wave::count(lag); }
  LaunchPosition position(uint32_t lag, int64_t step = 0) const {
    return {Wave::position(lag, step), replayed};
  }
};

/// The most that any chain has in a wave.
inline int64_t most_steps(const Branch& branch, const CudaWave& wave) {
  int64_t most = 0;
  for (const Chain& chain : branch.chains) most = std::max(most, wave.count(chain.lag));
  return most;
}
inline int64_t most_steps(const Round& round, const CudaWave& wave) {
  int64_t most = 0;
  for (const Branch& branch : round.branches) most = std::max(most, most_steps(branch, wave));
  return most;
}

}  // namespace rnnc::cuda
