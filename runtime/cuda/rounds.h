/// In which order the stages of a sweep are launched in a wave, and which of them side by side.
///
/// A wave is run in rounds. Sequence stages of a round come first. Where resident recurrences have
/// several lags, each on a share of the GPU, those of each lag are on a stream of their own; else
/// all are one after the other, as each fills the GPU by itself. Its Step stages follow as chains,
/// which do not depend on one another: those of other lags, and within a lag those that touch
/// nothing that the other writes. Two layers, lag 0 and 1, one round:
///
///     products of x    products of h0    │  h0[t]  │  h0[t + 1]  …     one branch of two chains:
///                                        │  h1[t]  │  h1[t + 1]  …     each launch is one for both
///
#pragma once

#include <vector>

#include "codegen/cuda/device/cuda_module.h"

namespace rnnc::cuda {

/// Step stages of one lag, each over all steps of its chunk, one after the other.
struct Chain {
  uint32_t lag = 0;
  std::vector<size_t> stages;  // of the plan
};

/// Chains that go step by step together. If there are several, all of their launches are alike one
/// by one, and go as one.
struct Branch {
  std::vector<Chain> chains;
};

struct Round {
  std::vector<size_t> sequences;  // stages of the plan, in order
  uint32_t streams = 1;           // lag i's are on stream i modulo as many
  /// Of one stream, stages with recurrences behind products that touch nothing of what their blocks
  /// exchange: that is cleared on another stream meanwhile.
  std::vector<size_t> cleared_early;
  /// Stages with recurrences whose exchange nothing else in the plan touches, products behind them:
  /// it is cleared for the next chunk meanwhile, and for the first chunk when a call begins.
  std::vector<size_t> cleared_ahead;
  bool clears_beside() const { return !cleared_early.empty() || !cleared_ahead.empty(); }
  std::vector<Branch> branches;
};

inline constexpr size_t kMostStreams = 8;  // lags, and branches, that are more share them

/// Of one sweep. `module` is that of the plan.
std::vector<Round> find_rounds(const Plan& plan, const CudaModule& module, uint32_t sweep);

/// Of a graph: the parameter block's, and its own.
inline constexpr int64_t kLaunchesOfReplay = 2;
/// Launches of the Step stages in a whole chunk.
int64_t step_launches(const Plan& plan, const std::vector<Round>& rounds);

}  // namespace rnnc::cuda
