/// The launches that begin and end a plan's states.
#pragma once

#include <vector>

#include "runtime/cuda/launcher.h"

namespace rnnc::cuda {

class StateLaunches {
 public:
  /// `plan` outlives this.
  explicit StateLaunches(const Plan& plan);

  /// Of how many steps all states are, at most, with what hides entries.
  size_t most() const { return most_; }
  /// Adds those of state `index` from a position on; `resets`: whether the call has them.
  void append_begin(size_t index, bool given, bool resets, LaunchPosition position,
                    std::vector<StateLaunch>& launches) const;
  void append_end(size_t index, bool resets, LaunchPosition position,
                  std::vector<StateLaunch>& launches) const;

 private:
  using Steps = std::vector<ElementwiseLaunch>;  // of each of a state's steps, the earliest first
  struct OfState {
    Steps given, declared, final, hide;
  };
  void append(size_t index, const Steps& steps, CudaEntries entries, LaunchPosition position,
              std::vector<StateLaunch>& launches) const;

  const Plan& plan_;
  std::vector<OfState> states_;  // as the plan's
  size_t most_ = 0;
};

}  // namespace rnnc::cuda
