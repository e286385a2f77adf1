/// Streams of launches, and starting kernels of a plan's unit on them.
#pragma once

#include <cuda_runtime_api.h>

#include "ir/base/status.h"

namespace rnnc::cuda {

inline constexpr unsigned kThreads = 256;  // of kernels that go over elements one by one

/// A stream on which launches follow one another.
struct LaunchQueue {
  cudaStream_t stream = nullptr;
  char* library_workspace = nullptr;  // for these launches alone
  /// Kernels of rnnc's may begin while one before them ends (kernel_abi.h says when that may be).
  /// For Step stages in graphs.
  bool overlap = false;
  bool after_kernel = false;  // the last launch was a kernel of rnnc's
};

struct LaunchShape {
  dim3 grid;
  dim3 threads;
  size_t shared_bytes = 0;
  bool cooperative = false;  // all blocks at once, or an error
  unsigned cluster = 1;      // blocks of one, all of which are there at once, or an error
};

cudaError_t try_start(cudaKernel_t kernel, const LaunchShape& shape, void** parameters,
                      LaunchQueue& queue);
/// Whether blocks that wait for each other found no room at once.
bool is_without_room(cudaError_t error, const LaunchShape& shape);
/// The error says `what` was not done.
Status start(cudaKernel_t kernel, const LaunchShape& shape, void** parameters, LaunchQueue& queue,
             const char* what);

/// Of kThreads threads, one for each element if there are not more than `most`.
unsigned blocks_for(int64_t elements, int64_t most);

}  // namespace rnnc::cuda
