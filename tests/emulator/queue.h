/// Streams, events and graphs. Work waits until somebody waits for it, and then runs in an order
/// that the seed decides among those that streams, events and graphs allow.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <variant>
#include <vector>

#include "tests/emulator/launch.h"
#include "tests/emulator/random.h"

namespace rnnc::emulator {

using Work = std::variant<KernelCall, std::function<void()>>;

struct Task {
  Work work;
  std::vector<std::shared_ptr<Task>> before = {};
  std::unique_ptr<Launch> begun = nullptr;
  bool done = false;
};
using Tasks = std::vector<std::shared_ptr<Task>>;

}  // namespace rnnc::emulator

struct CUgraph_st {
  struct Node {
    rnnc::emulator::Work work;
    std::vector<size_t> before;
  };
  std::vector<Node> nodes;
  // While it is being captured:
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool invalid = false;
};

struct CUgraphExec_st {
  std::vector<CUgraph_st::Node> nodes;
};

struct CUstream_st {
  bool blocking = true;  // waits for the legacy default stream, and that for it
  rnnc::emulator::Tasks last = {};
  CUgraph_st* capture = nullptr;
  std::vector<size_t> last_nodes = {};  // of the capture
};

struct CUevent_st {
  rnnc::emulator::Tasks after = {};
  CUgraph_st* capture = nullptr;
  std::vector<size_t> nodes = {};
  std::shared_ptr<std::chrono::steady_clock::time_point> time = {};
};

namespace rnnc::emulator {

class Queue {
 public:
  /// The legacy and the thread's own default stream have small numbers for handles.
  CUstream_st& stream(cudaStream_t handle);
  cudaStream_t create_stream(bool blocking);
  void destroy_stream(cudaStream_t stream);

  cudaError_t submit(CUstream_st& stream, Work work);
  cudaError_t launch_graph(const CUgraphExec_st& graph, CUstream_st& stream);
  cudaError_t complete(const CUstream_st& stream);
  cudaError_t complete(const CUevent_st& event);
  cudaError_t complete_all();

  cudaError_t record(CUevent_st& event, CUstream_st& stream);
  cudaError_t wait(CUstream_st& stream, const CUevent_st& event);

  cudaError_t begin_capture(CUstream_st& stream, cudaStreamCaptureMode mode);
  cudaError_t end_capture(CUstream_st& stream, CUgraph_st** graph);
  /// Whether this thread may do what a capture forbids; if not, that capture is invalid.
  bool may_be_unsafe();

  /// Work that waits is dropped; the device fails until `recover`.
  void break_down();
  void recover() { broken_ = cudaSuccess; }
  /// From now on orders are those of this seed.
  void seed(uint64_t seed) { random_ = Random(seed); }

 private:
  void add(CUstream_st& stream, Work work, const Tasks& before);
  Tasks before_next(const CUstream_st& stream) const;
  bool is_ready(const Task& task) const;
  void run_one();
  void run(Task& task);
  void begin_next_early(const std::shared_ptr<Task>& task);
  cudaError_t complete(const Tasks& tasks);

  CUstream_st legacy_;
  CUstream_st per_thread_;
  std::set<std::unique_ptr<CUstream_st>> streams_;
  std::set<CUgraph_st*> captures_;
  Tasks waiting_;
  Random random_{1};
  cudaError_t broken_ = cudaSuccess;
};

/// What the calling thread has set.
cudaStreamCaptureMode& capture_mode();

}  // namespace rnnc::emulator
