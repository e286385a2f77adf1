// Totals: of outer products as products of the library (library_products.h), of rows by the kernel
// in totals.cuh, where there are many in two launches.
#include <algorithm>

#include "ir/base/arithmetic.h"
#include "runtime/cuda/launcher.h"
#include "runtime/cuda/start_kernel.h"

namespace rnnc::cuda {

size_t Launcher::workspace_bytes() const {
  int64_t most = 0;
  const auto need = [&most](int64_t rows, int64_t columns) {
    most = std::max(most, cuda_row_slices(rows, columns) * columns);
  };
  for_each_launch_of<TotalLaunch>(plan_, [&](LaunchId id, const TotalLaunch& launch) {
    if (launch.right.buffer != kNoBuffer) return;
    const int64_t steps = plan_.stages[id.stage].domain == Domain::Last ? 1 : plan_.chunk;
    need(steps * plan_.batch, launch.m);
  });
  for (const RowSums& sums : partial_sums()) need(sums.rows, sums.columns);
  return static_cast<size_t>(most) * sizeof(float);
}

bool Launcher::opens_sum(const Run& at) const {
  return call_.begins && at.position.order() == 0 && std::ranges::binary_search(whole_sums_, at.id);
}

Status Launcher::run(const TotalLaunch& launch, const Run& at, LaunchQueue& queue) {
  const bool opens = opens_sum(at);
  if (launch.right.buffer != kNoBuffer) {
    return products_.run(at.id, at.rows, addresses_, at.first, queue.library_workspace,
                         queue.stream, opens);
  }
  return add_all_rows(kernel_of(at.id),
                      {.from = addresses_.pointer(launch.left, at.first),
                       .dtype = plan_.buffers[launch.left.buffer].dtype,
                       .stride = launch.left.stride,
                       .rows = at.rows,
                       .columns = launch.m,
                       .to = addresses_.pointer(launch.out, {}),
                       .accumulate = launch.accumulate && !opens},
                      queue);
}

Status Launcher::add_all_rows(cudaKernel_t kernel, const RowSums& sums, LaunchQueue& queue) {
  RowSums first = sums;
  first.slices = cuda_row_slices(sums.rows, sums.columns);
  if (first.slices == 1) return add_rows(kernel, first, queue);
  first.to = queue.library_workspace;
  first.accumulate = false;
  RowSums second = sums;
  second.from = queue.library_workspace;
  second.dtype = DType::f32;
  second.stride = sums.columns;
  second.rows = first.slices;
  return add_rows(kernel, first, queue).and_then([&] { return add_rows(kernel, second, queue); });
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
