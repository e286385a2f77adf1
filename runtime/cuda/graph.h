/// CUDA graphs of our own, and the streams they are captured on.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <span>

#include "ir/base/status.h"

namespace rnnc::cuda {

/// Whether a graph is being captured from the stream.
Result<bool> is_capturing(cudaStream_t stream);

/// A stream that does not wait for the default stream.
class OwnStream {
 public:
  static Result<OwnStream> create();
  OwnStream(OwnStream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  OwnStream& operator=(OwnStream&&) = delete;
  ~OwnStream();
  cudaStream_t get() const { return stream_; }

 private:
  explicit OwnStream(cudaStream_t stream) : stream_(stream) {}
  cudaStream_t stream_;
};

/// What has been given to a stream so far, for other streams to wait for.
class Fence {
 public:
  static Result<Fence> create();
  Fence(Fence&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Fence& operator=(Fence&&) = delete;
  ~Fence();
  /// `stream` waits for what `before` has been given so far.
  Status order(cudaStream_t before, cudaStream_t stream) const;

 private:
  explicit Fence(cudaEvent_t event) : event_(event) {}
  cudaEvent_t event_;
};

/// Launches that can be made again with one call.
class StepGraph {
 public:
  /// Captures what `work` launches on the streams, and puts it on the device. What it launches on
  /// one stream does not wait for what it launches on another.
  static Result<StepGraph> capture(std::span<const OwnStream> streams,
                                   const std::function<Status()>& work);
  StepGraph() = default;
  StepGraph(StepGraph&& other) noexcept : executable_(std::exchange(other.executable_, nullptr)) {}
  StepGraph& operator=(StepGraph&& other) noexcept {
    std::swap(executable_, other.executable_);
    return *this;
  }
  ~StepGraph();

  bool exists() const { return executable_ != nullptr; }
  Status replay(cudaStream_t stream) const;

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace rnnc::cuda
