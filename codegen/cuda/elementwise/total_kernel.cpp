#include "codegen/cuda/elementwise/total_kernel.h"

#include "codegen/cuda/device/prelude.h"

namespace rnnc {

uint32_t need_total_kernel(CudaModule& module) {
  if (module.total == kNoCudaKernel) {
    module.source += kCudaTotals;
    module.total = module.add({kCudaTotalName, CudaOwnShape()});
  }
  return module.total;
}

void add_total_kernel(const Plan& plan, CudaModule& module) {
  for_each_launch_of<TotalLaunch>(plan, [&](LaunchId id, const TotalLaunch& launch) {
    if (launch.right.buffer == kNoBuffer) module.of(id).kernel = need_total_kernel(module);
  });
}

}  // namespace rnnc
