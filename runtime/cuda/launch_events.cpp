#include "runtime/cuda/launch_events.h"

#include "runtime/cuda/cuda_device.h"

namespace rnnc::cuda {

LaunchEvents::~LaunchEvents() {
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
}

Status LaunchEvents::begin_call(cudaStream_t stream) {
  return record(stream);
}

Status LaunchEvents::record(cudaStream_t stream) {
  cudaEvent_t event = nullptr;
  if (Status status = check_cuda(cudaEventCreate(&event), "making an event"); !status) {
    return status;
  }
  events_.push_back(event);
  return check_cuda(cudaEventRecord(event, stream), "recording an event");
}

Result<double> LaunchEvents::at(size_t event) const {
  float milliseconds = 0;
  const Status read = check_cuda(cudaEventElapsedTime(&milliseconds, events_[0], events_[event]),
                                 "reading an event");
  if (!read) return tl::unexpected(read.error());
  return 1e-3 * static_cast<double>(milliseconds);
}

Status LaunchEvents::end_call(cudaStream_t stream, LaunchTimes& times) {
  Status ended = record(stream).and_then(
      [&] { return check_cuda(cudaStreamSynchronize(stream), "running launches"); });
  if (!ended) return ended;
  times.begin_call(1);
  for (Timed& timed : timed_) {
    const Result<double> begin = at(timed.begin);
    if (!begin) return tl::unexpected(begin.error());
    const Result<double> end = at(timed.end);
    if (!end) return tl::unexpected(end.error());
    timed.span.begin = *begin;
    timed.span.end = *end;
    times.add(timed.span);
  }
  const Result<double> seconds = at(events_.size() - 1);
  if (!seconds) return tl::unexpected(seconds.error());
  times.end_call(*seconds);
  return {};
}

}  // namespace rnnc::cuda
