#include "runtime/cuda/start_kernel.h"

#include <algorithm>
#include <array>

#include "ir/base/arithmetic.h"
#include "runtime/cuda/cuda_device.h"

namespace rnnc::cuda {

cudaError_t try_start(cudaKernel_t kernel, const LaunchShape& shape, void** parameters,
                      LaunchQueue& queue) {
  std::array<cudaLaunchAttribute, 2> attributes = {};
  unsigned count = 0;
  if (shape.cluster > 1) {
    cudaLaunchAttribute& attribute = attributes[count++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {shape.cluster, 1, 1};
  }
  if (shape.cooperative) {
    cudaLaunchAttribute& attribute = attributes[count++];
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
  } else if (queue.overlap && queue.after_kernel) {
    cudaLaunchAttribute& attribute = attributes[count++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.threads;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = queue.stream;
  config.attrs = attributes.data();
  config.numAttrs = count;
  queue.after_kernel = true;
  return cudaLaunchKernelExC(&config, kernel, parameters);
}

bool is_without_room(cudaError_t error, const LaunchShape& shape) {
  if (shape.cooperative && error == cudaErrorCooperativeLaunchTooLarge) return true;
  return shape.cluster > 1 &&
         (error == cudaErrorInvalidClusterSize || error == cudaErrorLaunchOutOfResources);
}

Status start(cudaKernel_t kernel, const LaunchShape& shape, void** parameters, LaunchQueue& queue,
             const char* what) {
  const cudaError_t error = try_start(kernel, shape, parameters, queue);
  if (!is_without_room(error, shape)) return check_cuda(error, what);
  cudaGetLastError();
  const std::string needs = shape.cooperative ? fmt::format("{}", shape.grid.x)
                                              : fmt::format("clusters of {}", shape.cluster);
  return fail(
      "a resident recurrence needs {} blocks on the GPU at once, which had room for them when the "
      "program was prepared and has not now; compiled anew, it will do without",
      needs);
}

unsigned blocks_for(int64_t elements, int64_t most) {
  return static_cast<unsigned>(std::min(ceil_div(elements, kThreads), most));
}

}  // namespace rnnc::cuda
