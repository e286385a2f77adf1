#include "codegen/cuda/elementwise/total_kernel.h"

#include "codegen/cuda/device/prelude.h"

namespace rnnc {

void add_total_kernel(const Plan& plan, CudaModule& module) {
  uint32_t kernel = kNoCudaKernel;
  for_each_launch_of<TotalLaunch>(plan, [&](LaunchId id, const TotalLaunch& launch) {
    if (launch.right.buffer != kNoBuffer) return;
    if (kernel == kNoCudaKernel) {
      module.source += kCudaTotals;
      kernel = module.add({kCudaTotalName, CudaOwnShape()});
    }
    module.of(id).kernel = kernel;
  });
}

}  // namespace rnnc
