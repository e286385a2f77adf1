#include "codegen/cuda/elementwise/total_kernel.h"

#include "codegen/cuda/device/prelude.h"

namespace rnnc {

void add_total_kernel(const Plan& plan, CudaModule& module) {
  const auto kernel = [&module] {
    if (module.total == kNoCudaKernel) {
      module.source += kCudaTotals;
      module.total = module.add({kCudaTotalName, CudaOwnShape()});
    }
    return module.total;
  };
  for_each_launch_of<TotalLaunch>(plan, [&](LaunchId id, const TotalLaunch& launch) {
    if (launch.right.buffer == kNoBuffer) module.of(id).kernel = kernel();
  });
  for_each_launch_of<ScanLaunch>(plan, [&](LaunchId, const ScanLaunch& launch) {
    if (!launch.totals.empty()) kernel();
  });
}

}  // namespace rnnc
