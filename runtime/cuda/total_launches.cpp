// Totals: of outer products as products of the library (library_products.h), of rows by the kernel
// in totals.cuh, where there are many in two launches.
#include <algorithm>

#include "ir/base/arithmetic.h"
#include "runtime/cuda/launcher.h"
#include "runtime/cuda/start_kernel.h"

namespace rnnc::cuda {

size_t Launcher::workspace_bytes() const {
  int64_t most = 0;
  for_each_launch_of<TotalLaunch>(plan_, [&](LaunchId id, const TotalLaunch& launch) {
    if (launch.right.buffer != kNoBuffer) return;
    const int64_t steps = plan_.stages[id.stage].domain == Domain::Last ? 1 : plan_.chunk;
    most = std::max(most, cuda_row_slices(steps * plan_.batch, launch.m) * launch.m);
  });
  return static_cast<size_t>(most) * sizeof(float);
}

Status Launcher::run(const TotalLaunch& launch, const Run& at, LaunchQueue& queue) {
  const bool opens =
      call_.begins && at.position.order() == 0 && std::ranges::binary_search(whole_sums_, at.id);
  if (launch.right.buffer != kNoBuffer) {
    return products_.run(at.id, at.rows, addresses_, at.first, queue.library_workspace,
                         queue.stream, opens);
  }
  const RowSums all{.from = addresses_.pointer(launch.left, at.first),
                    .dtype = plan_.buffers[launch.left.buffer].dtype,
                    .stride = launch.left.stride,
                    .rows = at.rows,
                    .columns = launch.m,
                    .slices = cuda_row_slices(at.rows, launch.m),
                    .to = addresses_.pointer(launch.out, {}),
                    .accumulate = launch.accumulate && !opens};
  if (all.slices == 1) return add_rows(kernel_of(at.id), all, queue);
  RowSums first = all;
  first.to = queue.library_workspace;
  first.accumulate = false;
  RowSums second = all;
  second.from = queue.library_workspace;
  second.dtype = DType::f32;
  second.stride = launch.m;
  second.rows = all.slices;
  second.slices = 1;
  return add_rows(kernel_of(at.id), first, queue).and_then([&] {
    return add_rows(kernel_of(at.id), second, queue);
  });
}

Status Launcher::add_rows(cudaKernel_t kernel, RowSums sums, LaunchQueue& queue) {
  int type = sums.dtype == DType::f32 ? 0 : sums.dtype == DType::bf16 ? 1 : 2;
  int64_t per_slice = ceil_div(sums.rows, sums.slices);
  int accumulate = sums.accumulate ? 1 : 0;
  void* parameters[] = {&sums.from, &type,         &sums.stride, &sums.rows,
                        &per_slice, &sums.columns, &sums.to,     &accumulate};
  const LaunchShape shape{dim3(static_cast<unsigned>(ceil_div(sums.columns, kCudaTotalColumns)),
                               static_cast<unsigned>(sums.slices)),
                          dim3(kCudaTotalColumns / 2, kCudaTotalThreads)};
  return start(kernel, shape, parameters, queue, "adding up rows");
}

}  // namespace rnnc::cuda
