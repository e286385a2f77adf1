#include "runtime/cuda/launcher.h"

#include <algorithm>
#include <cstring>

#include "ir/base/arithmetic.h"

namespace rnnc::cuda {
namespace {

constexpr unsigned kThreads = 256;  // of kernels that go over elements one by one

struct LaunchShape {
  dim3 grid;
  dim3 threads;
  size_t shared_bytes = 0;
  bool cooperative = false;  // all blocks at once, or an error
  unsigned cluster = 1;      // blocks of one, all of which are there at once, or an error
};

/// A kernel of the plan's unit.
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

/// Whether blocks that wait for each other found no room at once.
bool is_without_room(cudaError_t error, const LaunchShape& shape) {
  if (shape.cooperative) return error == cudaErrorCooperativeLaunchTooLarge;
  return shape.cluster > 1 &&
         (error == cudaErrorInvalidClusterSize || error == cudaErrorLaunchOutOfResources);
}

Status start(cudaKernel_t kernel, const LaunchShape& shape, void** parameters, LaunchQueue& queue,
             const char* what) {
  const cudaError_t error = try_start(kernel, shape, parameters, queue);
  if (!is_without_room(error, shape)) return check_cuda(error, what);
  cudaGetLastError();
  const std::string needs = shape.cluster > 1 ? fmt::format("clusters of {}", shape.cluster)
                                              : fmt::format("{}", shape.grid.x);
  return fail(
      "a resident recurrence needs {} blocks on the GPU at once, which had room for them when the "
      "program was prepared and has not now; compiled anew, it will do without",
      needs);
}

LaunchShape launch_shape(const CudaRecurrenceShape& shape) {
  return {dim3(shape.blocks), dim3(shape.threads), shape.shared_bytes, shape.cluster == 1,
          shape.cluster};
}

unsigned blocks_for(int64_t elements, int64_t most) {
  return static_cast<unsigned>(std::min(ceil_div(elements, kThreads), most));
}

size_t most_arguments(const Plan& plan) {
  size_t most = 0;
  for (const Kernel& kernel : plan.kernels) most = std::max(most, kernel.arguments.size());
  return most;
}

/// Of the parameter of a kernel that has all of its launches' arrays in one.
size_t parameter_bytes(const CudaKernel& kernel) {
  const auto* fused = std::get_if<CudaFusedShape>(&kernel.shape);
  const auto* recurrence = std::get_if<CudaRecurrenceShape>(&kernel.shape);
  const auto* states = std::get_if<CudaStatesShape>(&kernel.shape);
  if (fused != nullptr) return size_t{fused->most_instances} * fused->instance_bytes;
  if (recurrence != nullptr) return recurrence->bytes;
  return states == nullptr ? 0 : size_t{states->most_instances} * states->instance_bytes;
}

size_t most_parameter_bytes(const CudaModule& module) {
  size_t most = sizeof(CudaRows) + sizeof(uint32_t);  // of a launch of no state
  for (const CudaKernel& kernel : module.kernels) most = std::max(most, parameter_bytes(kernel));
  return most;
}

/// Puts values behind one another.
class Writer {
 public:
  explicit Writer(std::byte* to) : to_(to) {}
  template <typename T>
  void append(const T& value) {
    std::memcpy(to_, &value, sizeof(value));
    to_ += sizeof(value);
  }

 private:
  std::byte* to_;
};

}  // namespace

Launcher::Launcher(const Plan& plan, const LoadedKernels& kernels, const PlanProducts& products,
                   char* resident, int64_t* parameter_block)
    : plan_(plan),
      kernels_(kernels),
      products_(products),
      addresses_(plan, resident),
      parameter_block_(parameter_block),
      accesses_(most_arguments(plan)),
      parameters_(accesses_.size() + 2),
      instances_(most_parameter_bytes(kernels.module())) {}

void Launcher::bind(const Call& call) {
  addresses_.bind(call);
  sequences_ = {call.lengths, call.reset, call.steps, call.piece.first_step};
}

// ---- By domain ----

Status Launcher::once(LaunchId id, LaunchQueue& queue) {
  const Launch& launch = launch_of(id);
  if (const auto* kernel = std::get_if<ElementwiseLaunch>(&launch)) {
    return elementwise(id, kernel->once_rows, {}, queue);
  }
  if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) {
    return products_.run(id, gemm->once_rows, addresses_, {}, queue.library_workspace,
                         queue.stream);
  }
  if (const auto* operand = std::get_if<SplitLaunch>(&launch)) {
    return split(id, operand->once_rows, {}, queue);
  }
  if (std::holds_alternative<TotalLaunch>(launch)) return total(id, plan_.batch, {}, queue);
  return copy(id, queue);
}

Status Launcher::states(std::span<const StateLaunch> launches, LaunchQueue& queue) {
  if (launches.empty()) return {};
  const uint32_t kernel = module().states;
  const auto& shape = std::get<CudaStatesShape>(module().kernels[kernel].shape);
  uint32_t count = 0;
  dim3 grid(0, 0, 0);
  const auto flush = [&]() -> Status {
    if (count == 0) return {};
    grid.z = count;
    void* parameters[] = {instances_.data()};
    const LaunchShape all{grid, dim3(shape.threads)};
    count = 0;
    grid = dim3(0, 0, 0);
    return start(kernels_[kernel], all, parameters, queue, "launching");
  };
  for (const auto& [launch, position] : launches) {
    const CudaGrid own = cuda_grid(cuda_kernel_shape(plan_.kernels[launch->kernel]), plan_.batch);
    grid.x = std::max(grid.x, own.x);
    grid.y = std::max(grid.y, own.y);
    Writer writer(instances_.data() + count * shape.instance_bytes);
    writer.append(at(own.rows, position));
    writer.append(launch->kernel);
    writer.append(uint32_t{0});
    for (const Access& access : launch->accesses) writer.append(addresses_.at(access, position));
    if (++count < shape.most_instances) continue;
    if (Status status = flush(); !status) return status;
  }
  return flush();
}

Status Launcher::clear_exchange(const Launch& launch, int64_t steps, LaunchPosition position,
                                cudaStream_t stream) const {
  const auto* recurrence = std::get_if<RecurrenceLaunch>(&launch);
  if (recurrence == nullptr || recurrence->exchange == kNoBuffer) return {};
  const Buffer& exchange = plan_.buffers[recurrence->exchange];
  const auto step_bytes =
      static_cast<size_t>(plan_.batch * exchange.width) * size_of(exchange.dtype);
  char* const first =
      addresses_.pointer({.buffer = recurrence->exchange}, first_of(position, steps));
  return check_cuda(cudaMemsetAsync(first, 0xFF, static_cast<size_t>(steps) * step_bytes, stream),
                    "clearing what blocks exchange");
}

Status Launcher::clear_totals(std::span<const BufferId> buffers, LaunchQueue& queue) const {
  for (const BufferId id : buffers) {
    const auto bytes = static_cast<size_t>(byte_size(plan_, plan_.buffers[id]));
    const Status cleared =
        check_cuda(cudaMemsetAsync(addresses_.pointer({.buffer = id}, {}), 0, bytes, queue.stream),
                   "clearing totals");
    if (!cleared) return cleared;
  }
  return {};
}

Status Launcher::sequence(LaunchId id, int64_t steps, LaunchPosition position, LaunchQueue& queue) {
  const Launch& launch = launch_of(id);
  if (std::holds_alternative<LoopLaunch>(launch)) return loop(id, steps, position, queue);
  if (std::holds_alternative<RecurrenceLaunch>(launch)) {
    return recurrence(id, steps, position, queue);
  }
  const int64_t rows = steps * plan_.batch;
  const LaunchPosition first = first_of(position, steps);
  if (std::holds_alternative<ElementwiseLaunch>(launch)) {
    return elementwise(id, rows, first, queue);
  }
  if (std::holds_alternative<GemmLaunch>(launch)) {
    return products_.run(id, rows, addresses_, first, queue.library_workspace, queue.stream);
  }
  if (std::holds_alternative<ReverseLaunch>(launch)) return reverse(id, rows, first, queue);
  if (std::holds_alternative<EarlierLaunch>(launch)) return earlier(id, rows, first, queue);
  if (std::holds_alternative<SplitLaunch>(launch)) return split(id, rows, first, queue);
  if (std::holds_alternative<TotalLaunch>(launch)) return total(id, rows, first, queue);
  return fill_mask(id, rows, first, queue);
}

Status Launcher::step(std::span<const StepLaunch> launches, LaunchQueue& queue) {
  const auto& [id, position] = launches[0];
  if (module().fused(id) != nullptr) return fused(launches, queue);
  if (std::holds_alternative<ElementwiseLaunch>(launch_of(id))) {
    return elementwise(id, plan_.batch, position, queue);
  }
  queue.after_kernel = false;
  return products_.run(id, plan_.batch, addresses_, position, queue.library_workspace,
                       queue.stream);
}

// ---- Generated kernels ----

CudaRows Launcher::at(CudaRows rows, LaunchPosition position) const {
  rows.frame = parameter_block_;
  rows.step = static_cast<int32_t>(position.order());
  rows.predicated = position.replayed ? 1 : 0;
  return rows;
}

/// The last parameters of the launch that is being made.
void Launcher::set_accesses(const std::vector<Access>& accesses, LaunchPosition position) {
  for (size_t i = 0; i < accesses.size(); ++i) {
    accesses_[i] = addresses_.at(accesses[i], position);
    parameters_[2 + i] = &accesses_[i];
  }
}

Status Launcher::elementwise(LaunchId id, int64_t rows, LaunchPosition position,
                             LaunchQueue& queue) {
  const auto& kernel = shape_of<CudaKernelShape>(id);
  CudaGrid grid = cuda_grid(kernel, rows);
  grid.rows = at(grid.rows, position);
  parameters_[1] = &grid.rows;
  set_accesses(module().of(id).accesses, position);
  const LaunchShape shape{dim3(grid.x, grid.y), dim3(static_cast<unsigned>(kernel.threads))};
  return start(kernel_of(id), shape, &parameters_[1], queue, "launching");
}

Status Launcher::loop(LaunchId id, int64_t steps, LaunchPosition position, LaunchQueue& queue) {
  const CudaKernelShape& kernel = shape_of<CudaLoopShape>(id).shape;
  CudaGrid grid = cuda_grid(kernel, plan_.batch);
  grid.rows = at(grid.rows, position);
  auto count = static_cast<int32_t>(steps);
  parameters_[0] = &grid.rows;
  parameters_[1] = &count;
  set_accesses(module().of(id).accesses, position);
  const LaunchShape shape{dim3(grid.x, grid.y), dim3(static_cast<unsigned>(kernel.threads))};
  return start(kernel_of(id), shape, parameters_.data(), queue, "launching");
}

Status Launcher::recurrence(LaunchId id, int64_t steps, LaunchPosition position,
                            LaunchQueue& queue) {
  Writer writer(instances_.data());
  writer.append(at({.count = static_cast<uint32_t>(plan_.batch)}, position));
  writer.append(static_cast<int32_t>(steps));
  writer.append(int32_t{0});
  const BufferId exchange = std::get<RecurrenceLaunch>(launch_of(id)).exchange;
  for (const Access& access : module().of(id).accesses) {
    // What blocks exchange lies in the order in which steps run.
    const bool is_exchange = access.buffer == exchange;
    writer.append(addresses_.at(access, is_exchange ? first_of(position, steps) : position));
  }
  void* parameters[] = {instances_.data()};
  return start(kernel_of(id), launch_shape(shape_of<CudaRecurrenceShape>(id)), parameters, queue,
               "running a recurrence");
}

Status Launcher::fused(std::span<const StepLaunch> launches, LaunchQueue& queue) {
  const LaunchId first = launches[0].launch;
  Writer writer(instances_.data());
  for (const auto& [id, position] : launches) {
    writer.append(at({.count = static_cast<uint32_t>(plan_.batch)}, position));
    for (const Access& access : module().of(id).accesses) {
      writer.append(addresses_.at(access, position));
    }
  }
  const auto& kernel = shape_of<CudaFusedShape>(first);
  const LaunchShape shape{
      dim3(kernel.tiles, kernel.row_tiles, static_cast<unsigned>(launches.size())),
      dim3(kernel.threads), kernel.shared_bytes};
  void* parameters[] = {instances_.data()};
  return start(kernel_of(first), shape, parameters, queue, "multiplying");
}

Status Launcher::warm_up(LaunchQueue& queue) {
  CudaRows no_rows;
  int32_t no_steps = 0;
  for (size_t i = 0; i < accesses_.size(); ++i) parameters_[2 + i] = &accesses_[i];
  std::ranges::fill(instances_, std::byte{});
  void* no_instances[] = {instances_.data()};
  /// Behind the rows: of no kernel, since of any no access would be an address.
  constexpr uint32_t kNoState = kNoCudaKernel;
  for (uint32_t i = 0; i < module().kernels.size(); ++i) {
    LaunchShape once{dim3(1), dim3()};
    void** parameters = no_instances;
    if (const auto* loop = std::get_if<CudaLoopShape>(&module().kernels[i].shape)) {
      once.threads = dim3(static_cast<unsigned>(loop->shape.threads));
      parameters_[0] = &no_rows;
      parameters_[1] = &no_steps;
      parameters = parameters_.data();
    } else if (const auto* rows = std::get_if<CudaKernelShape>(&module().kernels[i].shape)) {
      once.threads = dim3(static_cast<unsigned>(rows->threads));
      parameters_[1] = &no_rows;
      parameters = &parameters_[1];
    } else if (const auto* fused = std::get_if<CudaFusedShape>(&module().kernels[i].shape)) {
      once.threads = dim3(fused->threads);
      once.shared_bytes = fused->shared_bytes;
    } else if (const auto* states = std::get_if<CudaStatesShape>(&module().kernels[i].shape)) {
      once.threads = dim3(states->threads);
      std::memcpy(instances_.data() + sizeof(CudaRows), &kNoState, sizeof(kNoState));
    } else {
      continue;
    }
    if (Status status = start(kernels_[i], once, parameters, queue, "launching"); !status) {
      return status;
    }
  }
  return {};
}

Result<std::string> Launcher::warm_up_recurrences(LaunchQueue& queue) {
  std::ranges::fill(instances_, std::byte{});
  void* no_instances[] = {instances_.data()};
  for (uint32_t i = 0; i < module().kernels.size(); ++i) {
    const auto* shape = std::get_if<CudaRecurrenceShape>(&module().kernels[i].shape);
    if (shape == nullptr) continue;
    const LaunchShape launch = launch_shape(*shape);
    const cudaError_t error = try_start(kernels_[i], launch, no_instances, queue);
    if (is_without_room(error, launch)) {
      cudaGetLastError();
      if (shape->cluster > 1) {
        return fmt::format(
            "its kernel needs clusters of {} blocks, and the device has room for none",
            shape->cluster);
      }
      return fmt::format("its kernel needs {} blocks at once, and the device has room for fewer",
                         shape->blocks);
    }
    if (error != cudaSuccess) return tl::unexpected(cuda_error(error, "launching"));
  }
  return std::string();
}

// ---- Between the waves ----

size_t parameter_words(const Plan& plan) {
  const auto moves = [](const Buffer& buffer) { return buffer.placement != Placement::Resident; };
  return kCudaFirstSlot + static_cast<size_t>(std::ranges::count_if(plan.buffers, moves));
}

Status Launcher::fill_parameter_block(LaunchQueue& queue) {
  const std::vector<int64_t>& block = addresses_.parameter_block();
  int64_t* frame = parameter_block_;
  CudaFrameWords words;
  for (size_t first = 0; first < block.size(); first += kCudaFrameWords) {
    auto begin = static_cast<int>(first);
    auto count = static_cast<int>(std::min<size_t>(kCudaFrameWords, block.size() - first));
    std::copy_n(block.begin() + begin, count, std::begin(words.word));
    void* parameters[] = {&frame, &begin, &count, &words};
    const LaunchShape shape{dim3(1), dim3(kCudaFrameWords)};
    if (Status status =
            start(kernels_[module().set_frame], shape, parameters, queue, "setting addresses");
        !status) {
      return status;
    }
  }
  return {};
}

Status Launcher::end_wave(uint32_t sweep, bool advance, bool before_ends, LaunchQueue& queue) {
  constexpr int64_t kMostBlocks = 1024;
  constexpr int64_t kUnitsPerMove = 8;  // of most histories
  auto steps = static_cast<int>(plan_.chunk);
  CudaHistories histories;
  unsigned count = 0;
  unsigned blocks = 1;
  const auto flush = [&](bool last) -> Status {
    int64_t* frame = parameter_block_;
    int advances = last && advance ? 1 : 0;
    int unless_ending = before_ends ? 1 : 0;
    if (count == 0 && advances == 0) return {};
    void* parameters[] = {&frame, &steps, &advances, &unless_ending, &histories};
    const LaunchShape shape{dim3(blocks, std::max(count, 1U)), dim3(kThreads)};
    const Status moved =
        start(kernels_[module().end_chunk], shape, parameters, queue, "moving histories");
    histories = {};
    count = 0;
    return moved;
  };
  for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
    const Buffer& buffer = plan_.buffers[id];
    if (!keeps_history(buffer, sweep)) continue;
    const int64_t units =
        plan_.batch * buffer.width * static_cast<int64_t>(size_of(buffer.dtype)) / 2;
    // Row 0 at the greatest delay: of a buffer's slots the one that is written first.
    const CudaAccess slots =
        addresses_.at({.buffer = id, .delay = buffer.history}, {{}, before_ends});
    histories.history[count++] = {slots.address, units, static_cast<int32_t>(buffer.history),
                                  slots.slot};
    const int64_t moves = units * std::min<int64_t>(buffer.history, plan_.chunk);
    blocks = std::max(blocks, blocks_for(moves / kUnitsPerMove, kMostBlocks));
    if (count < kCudaHistoriesPerLaunch) continue;
    if (Status status = flush(false); !status) return status;
  }
  return flush(true);
}

// ---- Kernels of sequence.cuh ----

Status Launcher::copy(LaunchId id, LaunchQueue& queue) {
  const auto& launch = std::get<CopyLaunch>(launch_of(id));
  if (launch.transposed) return transpose(id, queue);
  const Buffer& buffer = plan_.buffers[launch.target.buffer];
  return check_cuda(
      cudaMemcpyAsync(addresses_.pointer(launch.target, {}), addresses_.pointer(launch.source, {}),
                      static_cast<size_t>(launch.rows * launch.columns) * size_of(buffer.dtype),
                      cudaMemcpyDefault, queue.stream),
      "packing weights");
}

Status Launcher::transpose(LaunchId id, LaunchQueue& queue) {
  const auto& launch = std::get<CopyLaunch>(launch_of(id));
  const char* source = addresses_.pointer(launch.source, {});
  char* target = addresses_.pointer(launch.target, {});
  int64_t rows = launch.rows;
  int64_t columns = launch.columns;
  void* parameters[] = {&source, &target, &rows, &columns};
  const auto tiles = [](int64_t size) { return ceil_div(size, kCudaTransposeTile); };
  const LaunchShape shape{dim3(static_cast<unsigned>(tiles(rows) * tiles(columns))),
                          dim3(kCudaTransposeTile, kCudaTransposeThreads)};
  return start(kernel_of(id), shape, parameters, queue, "transposing weights");
}

Status Launcher::reverse(LaunchId id, int64_t rows, LaunchPosition position, LaunchQueue& queue) {
  const auto& launch = std::get<ReverseLaunch>(launch_of(id));
  constexpr int64_t kMostBlocks = 4096;
  // The whole sequence, whose end is read first.
  const char* source = addresses_.start(launch.source);
  char* target = addresses_.pointer(launch.target, position);
  int64_t first = step_at(plan_, sequences_.steps, position);
  auto batch = static_cast<unsigned>(plan_.batch);
  int64_t width = launch.width;
  int64_t source_stride = launch.source.stride;
  int64_t target_stride = launch.target.stride;
  void* parameters[] = {&source, &target, &sequences_.lengths, &sequences_.steps, &first, &batch,
                        &rows,   &width,  &source_stride,      &target_stride};
  const LaunchShape shape{dim3(blocks_for(rows * width, kMostBlocks)), dim3(kThreads)};
  return start(kernel_of(id), shape, parameters, queue, "reversing a sequence");
}

Status Launcher::earlier(LaunchId id, int64_t rows, LaunchPosition position,
                         LaunchQueue& queue) const {
  const auto& launch = std::get<EarlierLaunch>(launch_of(id));
  const size_t element = size_of(plan_.buffers[launch.target.buffer].dtype);
  const size_t width = static_cast<size_t>(launch.width) * element;
  const size_t source_pitch = static_cast<size_t>(launch.source.stride) * element;
  const size_t target_pitch = static_cast<size_t>(launch.target.stride) * element;
  char* target = addresses_.pointer(launch.target, position);
  int64_t first = (step_at(plan_, sequences_.steps, position) - 1) * plan_.batch;
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

Status Launcher::fill_mask(LaunchId id, int64_t rows, LaunchPosition position, LaunchQueue& queue) {
  const auto& launch = std::get<MaskLaunch>(launch_of(id));
  char* target = addresses_.pointer(launch.target, position);
  auto kind = static_cast<int>(launch.kind);
  int64_t first = sequences_.first_step + step_at(plan_, sequences_.steps, position);
  int64_t steps = sequences_.first_step + sequences_.steps;
  auto batch = static_cast<unsigned>(plan_.batch);
  void* parameters[] = {&target, &kind, &sequences_.lengths, &sequences_.reset, &steps, &first,
                        &batch,  &rows};
  const LaunchShape shape{dim3(blocks_for(rows, INT32_MAX)), dim3(kThreads)};
  return start(kernel_of(id), shape, parameters, queue, "filling a mask");
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

Status Launcher::total(LaunchId id, int64_t rows, LaunchPosition position, LaunchQueue& queue) {
  const auto& launch = std::get<TotalLaunch>(launch_of(id));
  if (launch.right.buffer != kNoBuffer) {
    return products_.run(id, rows, addresses_, position, queue.library_workspace, queue.stream);
  }
  const RowSums all{.from = addresses_.pointer(launch.left, position),
                    .dtype = plan_.buffers[launch.left.buffer].dtype,
                    .stride = launch.left.stride,
                    .rows = rows,
                    .columns = launch.m,
                    .slices = cuda_row_slices(rows, launch.m),
                    .to = addresses_.pointer(launch.out, {}),
                    .accumulate = launch.accumulate};
  if (all.slices == 1) return add_rows(kernel_of(id), all, queue);
  RowSums first = all;
  first.to = queue.library_workspace;
  first.accumulate = false;
  RowSums second = all;
  second.from = queue.library_workspace;
  second.dtype = DType::f32;
  second.stride = launch.m;
  second.rows = all.slices;
  second.slices = 1;
  return add_rows(kernel_of(id), first, queue).and_then([&] {
    return add_rows(kernel_of(id), second, queue);
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
                          dim3(kCudaTotalColumns, kCudaTotalThreads)};
  return start(kernel, shape, parameters, queue, "adding up rows");
}

Status Launcher::split(LaunchId id, int64_t rows, LaunchPosition position, LaunchQueue& queue) {
  const auto& launch = std::get<SplitLaunch>(launch_of(id));
  constexpr int64_t kMostBlocks = 65535;
  constexpr int64_t kElements = int64_t{4} * kCudaSplitThreads;  // of a row, of a block
  const char* source = addresses_.pointer(launch.source, position);
  char* target = addresses_.pointer(launch.target, position);
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
  return start(kernel_of(id), shape, parameters, queue, "splitting an operand");
}

}  // namespace rnnc::cuda
