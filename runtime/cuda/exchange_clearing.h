/// Makes ready what blocks of recurrences exchange: beside other work, where that is worth it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/cuda/cuda_wave.h"
#include "runtime/cuda/graph.h"
#include "runtime/cuda/launcher.h"

namespace rnnc::cuda {

class ExchangeClearing {
 public:
  /// `plan` and `launcher` outlive this.
  ExchangeClearing(const Plan& plan, const Launcher& launcher)
      : plan_(plan), launcher_(launcher), is_cleared_(plan.stages.size()) {}

  /// Makes a stream of its own, for work beside others'.
  Status prepare();

  /// No exchange is clear.
  void begin_call() { is_cleared_.assign(is_cleared_.size(), false); }
  /// What the stages exchange in a wave, after what `stream` has been given so far and beside what
  /// it is given next; if that is worth two events, and not under way.
  Status beside(std::span<const size_t> stages, const CudaWave& wave, cudaStream_t stream);
  /// What a stage exchanges in a wave is clear for what the stream is given next.
  Status finish(size_t stage, const CudaWave& wave, cudaStream_t stream);

 private:
  Status clear(size_t stage, const CudaWave& wave, cudaStream_t stream) const;

  const Plan& plan_;
  const Launcher& launcher_;
  struct Own {
    OwnStream stream;
    Fence fence;
  };
  std::optional<Own> own_;
  std::vector<bool> is_cleared_;  // by stage: what it exchanges next is, on the own stream
};

}  // namespace rnnc::cuda
