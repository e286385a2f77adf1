#include "runtime/cuda/graph.h"

#include "runtime/cuda/cuda_device.h"

namespace rnnc::cuda {
namespace {

/// `stream` waits for what `before` has been given so far.
Status wait_for(cudaStream_t stream, cudaStream_t before) {
  const Result<Fence> fence = Fence::create();
  return fence ? fence->order(before, stream) : tl::unexpected(fence.error());
}

/// The first stream is being captured; the others become part of that.
Status fork(std::span<const OwnStream> streams) {
  for (const OwnStream& stream : streams.subspan(1)) {
    if (Status status = wait_for(stream.get(), streams[0].get()); !status) return status;
  }
  return {};
}

Status join(std::span<const OwnStream> streams) {
  for (const OwnStream& stream : streams.subspan(1)) {
    if (Status status = wait_for(streams[0].get(), stream.get()); !status) return status;
  }
  return {};
}

}  // namespace

Result<bool> is_capturing(cudaStream_t stream) {
  // The legacy default stream cannot be captured, and may not even be asked during a capture.
  if (stream == nullptr || stream == cudaStreamLegacy) return false;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (Status status = check_cuda(cudaStreamIsCapturing(stream, &capture), "asking a stream");
      !status) {
    return tl::unexpected(status.error());
  }
  if (capture == cudaStreamCaptureStatusInvalidated) {
    return fail("the graph that is being captured from this stream is already invalid");
  }
  return capture == cudaStreamCaptureStatusActive;
}

Result<OwnStream> OwnStream::create() {
  cudaStream_t stream = nullptr;
  if (Status status = check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                                 "creating a stream");
      !status) {
    return tl::unexpected(status.error());
  }
  return OwnStream(stream);
}

OwnStream::~OwnStream() {
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

Result<Fence> Fence::create() {
  cudaEvent_t event = nullptr;
  if (Status status =
          check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
      !status) {
    return tl::unexpected(status.error());
  }
  return Fence(event);
}

Fence::~Fence() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

Status Fence::order(cudaStream_t before, cudaStream_t stream) const {
  return check_cuda(cudaEventRecord(event_, before), "recording an event").and_then([&] {
    return check_cuda(cudaStreamWaitEvent(stream, event_, 0), "waiting for an event");
  });
}

Result<StepGraph> StepGraph::capture(std::span<const OwnStream> streams,
                                     const std::function<Status()>& work) {
  const cudaStream_t stream = streams[0].get();
  // Thread-local: what other threads do meanwhile is no business of this capture.
  if (Status status = check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                                 "capturing a graph");
      !status) {
    return tl::unexpected(status.error());
  }
  const Status launched =
      fork(streams).and_then(work).and_then([streams] { return join(streams); });
  cudaGraph_t graph = nullptr;
  Status status = check_cuda(cudaStreamEndCapture(stream, &graph), "capturing a graph");
  if (!launched) status = launched;  // the cause
  StepGraph result;
  if (status) {
    status = check_cuda(cudaGraphInstantiate(&result.executable_, graph, 0), "building a graph");
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (status) {
    status = check_cuda(cudaGraphUpload(result.executable_, stream), "uploading a graph");
  }
  if (status) status = check_cuda(cudaStreamSynchronize(stream), "uploading a graph");
  if (!status) return tl::unexpected(status.error());
  return result;
}

StepGraph::~StepGraph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
}

Status StepGraph::replay(cudaStream_t stream) const {
  return check_cuda(cudaGraphLaunch(executable_, stream), "launching a graph");
}

}  // namespace rnnc::cuda
