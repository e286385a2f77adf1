#include "runtime/cuda/graph.h"

#include "runtime/cuda/cuda_device.h"

namespace rnnc {

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

Result<StepGraph> StepGraph::capture(cudaStream_t stream, const std::function<Status()>& work) {
  // Thread-local: what other threads do meanwhile is no business of this capture.
  if (Status status = check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                                 "capturing a graph");
      !status) {
    return tl::unexpected(status.error());
  }
  const Status launched = work();
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

}  // namespace rnnc
