// The launches whose kernels are in sequence.cuh and totals.cuh.
#include <algorithm>

#include "ir/base/arithmetic.h"
#include "runtime/cuda/launcher.h"
#include "runtime/cuda/start_kernel.h"

namespace rnnc::cuda {

size_t Launcher::copies_from(LaunchId id) const {
  const std::vector<Launch>& launches = plan_.stages[id.stage].launches;
  const auto copy_at = [&](size_t index) -> const CopyLaunch* {
    const auto* copy =
        index < launches.size() ? std::get_if<CopyLaunch>(&launches[index]) : nullptr;
    return copy == nullptr || copy->transposed ? nullptr : copy;
  };
  // Where the program has copied an array of its own, the next copy may write.
  const auto is_of_caller = [&](size_t index) {
    const CopyLaunch* copy = copy_at(index);
    return copy != nullptr && plan_.buffers[copy->source.buffer].placement == Placement::Caller;
  };
  size_t count = 0;
  while (count < kCudaCopiesPerLaunch && is_of_caller(id.index + count)) ++count;
  return count == 0 && copy_at(id.index) != nullptr ? 1 : count;
}

Status Launcher::copy(LaunchId first, size_t count, LaunchQueue& queue) {
  constexpr int64_t kMostBlocks = 512;
  constexpr int64_t kBytesOfThread = 64;
  CudaCopies copies;
  unsigned blocks = 1;
  for (size_t i = 0; i < count; ++i) {
    const auto& launch = std::get<CopyLaunch>(launch_of({first.stage, first.index + i}));
    const auto element = static_cast<int64_t>(size_of(plan_.buffers[launch.target.buffer].dtype));
    const int64_t bytes = launch.rows * launch.columns * element;
    CudaCopy& copy = copies.copy[i];
    copy = {.source = addresses_.pointer(launch.source, {}),
            .target = addresses_.pointer(launch.target, {}),
            .bytes = bytes};
    if (launch.by_rows()) {
      copy.rows = launch.rows;
      copy.bytes = launch.columns * element;
      copy.source_pitch = launch.source.stride * element;
      copy.target_pitch = launch.target.stride * element;
    }
    blocks = std::max(blocks, blocks_for(ceil_div(bytes, kBytesOfThread), kMostBlocks));
  }
  void* parameters[] = {&copies};
  const LaunchShape shape{dim3(blocks, static_cast<unsigned>(count)), dim3(kThreads)};
  return start(kernel_of(first), shape, parameters, queue, "packing weights");
}

Status Launcher::run(const CopyLaunch& launch, const Run& at, LaunchQueue& queue) {
  const char* source = addresses_.pointer(launch.source, {});
  char* target = addresses_.pointer(launch.target, {});
  int64_t rows = launch.rows;
  int64_t columns = launch.columns;
  void* parameters[] = {&source, &target, &rows, &columns};
  const auto tiles = [](int64_t size) { return ceil_div(size, kCudaTransposeTile); };
  const LaunchShape shape{dim3(static_cast<unsigned>(tiles(rows) * tiles(columns))),
                          dim3(kCudaTransposeTile, kCudaTransposeThreads)};
  return start(kernel_of(at.id), shape, parameters, queue, "transposing weights");
}

Status Launcher::run(const ReverseLaunch& launch, const Run& at, LaunchQueue& queue) {
  int64_t rows = at.rows;
  constexpr int64_t kMostBlocks = 4096;
  // The whole sequence, whose end is read first.
  const char* source = addresses_.start(launch.source);
  char* target = addresses_.pointer(launch.target, at.first);
  int64_t first = step_at(plan_, sequences_.steps, at.first);
  auto batch = static_cast<unsigned>(plan_.batch);
  int64_t width = launch.width;
  int64_t source_stride = launch.source.stride;
  int64_t target_stride = launch.target.stride;
  void* parameters[] = {&source, &target, &sequences_.lengths, &sequences_.steps, &first, &batch,
                        &rows,   &width,  &source_stride,      &target_stride};
  const LaunchShape shape{dim3(blocks_for(rows * width, kMostBlocks)), dim3(kThreads)};
  return start(kernel_of(at.id), shape, parameters, queue, "reversing a sequence");
}

Status Launcher::run(const EarlierLaunch& launch, const Run& at, LaunchQueue& queue) const {
  int64_t rows = at.rows;
  const size_t element = size_of(plan_.buffers[launch.target.buffer].dtype);
  const size_t width = static_cast<size_t>(launch.width) * element;
  const size_t source_pitch = static_cast<size_t>(launch.source.stride) * element;
  const size_t target_pitch = static_cast<size_t>(launch.target.stride) * element;
  char* target = addresses_.pointer(launch.target, at.first);
  int64_t first = (step_at(plan_, sequences_.steps, at.first) - 1) * plan_.batch;
  cudaError_t done = cudaSuccess;
  if (first < 0) {
    const auto zeros = static_cast<size_t>(plan_.batch);
    done = cudaMemset2DAsync(target, target_pitch, 0, width, zeros, queue.stream);
    target += zeros * target_pitch;
    rows -= plan_.batch;
    first = 0;
  }
  if (done == cudaSuccess && rows > 0) {
    const char* source =
        addresses_.start(launch.source) + static_cast<size_t>(first) * source_pitch;
    done = cudaMemcpy2DAsync(target, target_pitch, source, source_pitch, width,
                             static_cast<size_t>(rows), cudaMemcpyDeviceToDevice, queue.stream);
  }
  return check_cuda(done, "reading a sequence a step late");
}

Status Launcher::run(const RowsLaunch& launch, const Run& at, LaunchQueue& queue) {
  int64_t rows = at.rows;
  constexpr int64_t kMostBlocks = 4096;
  const char* table = addresses_.start(launch.table);
  const char* index = addresses_.pointer(launch.index, at.first);
  char* target = addresses_.pointer(launch.target, at.first);
  int64_t count = launch.count;
  int64_t width = launch.width;
  int64_t index_stride = launch.index.stride;
  int64_t target_stride = launch.target.stride;
  void* parameters[] = {&table, &index, &target,       &rows,
                        &count, &width, &index_stride, &target_stride};
  const int64_t blocks = std::min(ceil_div(rows, kCudaRowsThreads / 32), kMostBlocks);
  const LaunchShape shape{dim3(static_cast<unsigned>(blocks)), dim3(kCudaRowsThreads)};
  return start(kernel_of(at.id), shape, parameters, queue, "taking rows of a table");
}

Status Launcher::run(const RowTotalLaunch& launch, const Run& at, LaunchQueue& queue) {
  int64_t rows = at.rows;
  constexpr int64_t kMostBlocks = 1024;  // each goes over all rows' integers
  const char* index = addresses_.pointer(launch.index, at.first);
  const char* value = addresses_.pointer(launch.value, at.first);
  char* out = addresses_.pointer(launch.out, {});
  int64_t count = launch.count;
  int64_t width = launch.width;
  int64_t index_stride = launch.index.stride;
  int64_t value_stride = launch.value.stride;
  void* parameters[] = {&index, &value, &out, &rows, &count, &width, &index_stride, &value_stride};
  const LaunchShape shape{dim3(static_cast<unsigned>(std::min(count, kMostBlocks)),
                               static_cast<unsigned>(ceil_div(width, kCudaRowsThreads))),
                          dim3(kCudaRowsThreads)};
  return start(kernel_of(at.id), shape, parameters, queue, "adding to rows of a table");
}

Status Launcher::run(const RealLaunch& launch, const Run& at, LaunchQueue& queue) {
  int64_t rows = at.rows;
  const char* source = addresses_.pointer(launch.source, at.first);
  char* target = addresses_.pointer(launch.target, at.first);
  int64_t source_stride = launch.source.stride;
  int64_t target_stride = launch.target.stride;
  void* parameters[] = {&source, &target, &rows, &source_stride, &target_stride};
  const LaunchShape shape{dim3(blocks_for(rows, INT32_MAX)), dim3(kThreads)};
  return start(kernel_of(at.id), shape, parameters, queue, "making numbers of integers");
}

Status Launcher::run(const MaskLaunch& launch, const Run& at, LaunchQueue& queue) {
  int64_t rows = at.rows;
  char* target = addresses_.pointer(launch.target, at.first);
  auto kind = static_cast<int>(launch.kind);
  int64_t first = sequences_.first_step + step_at(plan_, sequences_.steps, at.first);
  int64_t steps = sequences_.first_step + sequences_.steps;
  auto batch = static_cast<unsigned>(plan_.batch);
  void* parameters[] = {&target, &kind, &sequences_.lengths, &sequences_.reset, &steps, &first,
                        &batch,  &rows};
  const LaunchShape shape{dim3(blocks_for(rows, INT32_MAX)), dim3(kThreads)};
  return start(kernel_of(at.id), shape, parameters, queue, "filling a mask");
}

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
  const bool opens = sequences_.begins && at.position.order() == 0 &&
                     std::ranges::binary_search(whole_sums_, at.id);
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

Status Launcher::run(const SplitLaunch& launch, const Run& at, LaunchQueue& queue) {
  int64_t rows = at.rows;
  constexpr int64_t kMostBlocks = 65535;
  constexpr int64_t kElements = int64_t{4} * kCudaSplitThreads;  // of a row, of a block
  const char* source = addresses_.pointer(launch.source, at.first);
  char* target = addresses_.pointer(launch.target, at.first);
  int weight = launch.weight ? 1 : 0;
  float most = launch.weight ? kMostSplitWeight : kMostSplitLeft;
  int64_t length = launch.length;
  int64_t part = launch.part;
  int64_t source_stride = launch.source.stride;
  int64_t target_stride = launch.target.stride;
  void* parameters[] = {&source, &target, &weight,        &most,         &rows,
                        &length, &part,   &source_stride, &target_stride};
  const int64_t down = std::min(ceil_div(rows, kCudaSplitRows), kMostBlocks);
  const LaunchShape shape{
      dim3(static_cast<unsigned>(ceil_div(part, kElements)), static_cast<unsigned>(down)),
      dim3(kCudaSplitThreads, kCudaSplitRows)};
  return start(kernel_of(at.id), shape, parameters, queue, "splitting an operand");
}

}  // namespace rnnc::cuda
