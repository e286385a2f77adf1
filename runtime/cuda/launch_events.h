/// When launches ran, by events between them.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "ir/base/status.h"
#include "runtime/backend/launch_times.h"

namespace rnnc::cuda {

/// Of one call, whose launches are given to streams one by one, without graphs.
class LaunchEvents {
 public:
  LaunchEvents() = default;
  ~LaunchEvents();
  LaunchEvents(const LaunchEvents&) = delete;
  LaunchEvents& operator=(const LaunchEvents&) = delete;

  /// All that is timed comes after what `stream` has been given so far.
  Status begin_call(cudaStream_t stream);
  /// Around `work`, which gives the launches of `spans`, together, to `stream`.
  template <typename Work>
  Status time(const std::vector<LaunchSpan>& spans, cudaStream_t stream, const Work& work) {
    const size_t begin = events_.size();
    return record(stream).and_then(work).and_then([&] { return record(stream); }).and_then([&] {
      for (const LaunchSpan& span : spans) timed_.push_back({span, begin, events_.size() - 1});
      return Status();
    });
  }
  /// Waits for `stream`, which all others have joined, and writes what was measured.
  Status end_call(cudaStream_t stream, LaunchTimes& times);

 private:
  struct Timed {
    LaunchSpan span;
    size_t begin, end;  // of events_
  };
  Status record(cudaStream_t stream);
  /// Seconds since the call began.
  Result<double> at(size_t event) const;

  std::vector<cudaEvent_t> events_;  // the first: the call begins
  std::vector<Timed> timed_;
};

}  // namespace rnnc::cuda
