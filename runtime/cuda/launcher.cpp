#include "runtime/cuda/launcher.h"

#include <algorithm>
#include <cstring>

namespace rnnc {
namespace {

constexpr unsigned kThreads = 256;  // of kernels that go over elements one by one
constexpr uint32_t kNoKernel = UINT32_MAX;

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

LaunchShape shape_of(const CudaRecurrenceShape& shape) {
  return {dim3(shape.blocks), dim3(shape.threads), shape.shared_bytes, shape.cluster == 1,
          shape.cluster};
}

unsigned blocks_for(int64_t elements, int64_t most) {
  return static_cast<unsigned>(std::min((elements + kThreads - 1) / kThreads, most));
}

size_t most_arguments(const Plan& plan) {
  size_t most = 0;
  for (const Kernel& kernel : plan.kernels) most = std::max(most, kernel.arguments.size());
  return most;
}

constexpr size_t recurrence_bytes(size_t accesses) {
  return sizeof(CudaRows) + 2 * sizeof(int32_t) + accesses * sizeof(CudaAccess);
}

size_t most_instance_bytes(const LoadedKernels& kernels) {
  const CudaStateKernel::Shape& states = kernels.states().shape();
  size_t most = std::max<size_t>(recurrence_bytes(kernels.recurrences().most_accesses()),
                                 states.most_instances * states.instance_bytes);
  for (const CudaFusedShape& shape : kernels.fused().shapes()) {
    most = std::max<size_t>(most, shape.most_instances * shape.instance_bytes);
  }
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
      instances_(most_instance_bytes(kernels)) {}

void Launcher::bind(const Call& call) {
  addresses_.bind(call);
  sequences_ = {call.lengths, call.reset, call.steps};
}

// ---- By domain ----

Status Launcher::once(const Launch& launch, LaunchQueue& queue) {
  if (const auto* kernel = std::get_if<ElementwiseLaunch>(&launch)) {
    return this->launch(*kernel, kernel->once_rows, {}, queue);
  }
  if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) {
    return products_.run(*gemm, Domain::Once, gemm->once_rows, addresses_, {},
                         queue.library_workspace, queue.stream);
  }
  if (const auto* operand = std::get_if<SplitLaunch>(&launch)) {
    return split(*operand, operand->once_rows, {}, queue);
  }
  return copy(std::get<CopyLaunch>(launch), queue);
}

Status Launcher::states(std::span<const StateLaunch> launches, LaunchQueue& queue) {
  const CudaStateKernel::Shape& shape = kernels_.states().shape();
  uint32_t count = 0;
  dim3 grid(0, 0, 0);
  const auto flush = [&]() -> Status {
    if (count == 0) return {};
    grid.z = count;
    void* parameters[] = {instances_.data()};
    const LaunchShape all{grid, dim3(shape.threads)};
    count = 0;
    grid = dim3(0, 0, 0);
    return start(kernels_.state_kernel(), all, parameters, queue, "launching");
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
  return check_cuda(cudaMemsetAsync(addresses_.pointer({.buffer = recurrence->exchange}, position),
                                    0xFF, static_cast<size_t>(steps) * step_bytes, stream),
                    "clearing what blocks exchange");
}

Status Launcher::sequence(const Launch& launch, int64_t steps, LaunchPosition position,
                          LaunchQueue& queue) {
  const int64_t rows = steps * plan_.batch;
  if (const auto* kernel = std::get_if<ElementwiseLaunch>(&launch)) {
    return this->launch(*kernel, rows, position, queue);
  }
  if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) {
    return products_.run(*gemm, Domain::Sequence, rows, addresses_, position,
                         queue.library_workspace, queue.stream);
  }
  if (const auto* loop = std::get_if<LoopLaunch>(&launch)) {
    return this->launch(*loop, steps, position, queue);
  }
  if (const auto* recurrence = std::get_if<RecurrenceLaunch>(&launch)) {
    return this->launch(*recurrence, steps, position, queue);
  }
  if (const auto* reversal = std::get_if<ReverseLaunch>(&launch)) {
    return reverse(*reversal, rows, position, queue);
  }
  if (const auto* operand = std::get_if<SplitLaunch>(&launch)) {
    return split(*operand, rows, position, queue);
  }
  return fill_mask(std::get<MaskLaunch>(launch), rows, position, queue);
}

Status Launcher::step(std::span<const StepLaunch> launches, LaunchQueue& queue) {
  const StepLaunch& first = launches[0];
  if (fused_parameters(*first.launch) != nullptr) return launch_fused(launches, queue);
  if (const auto* kernel = std::get_if<ElementwiseLaunch>(first.launch)) {
    return launch(*kernel, plan_.batch, first.position, queue);
  }
  queue.after_kernel = false;
  return products_.run(std::get<GemmLaunch>(*first.launch), Domain::Step, plan_.batch, addresses_,
                       first.position, queue.library_workspace, queue.stream);
}

// ---- Generated kernels ----

const CudaFusedKernels::Parameters* Launcher::fused_parameters(const Launch& launch) const {
  if (const auto* fused = std::get_if<FusedLaunch>(&launch)) return &kernels_.fused().of(*fused);
  const auto* gemm = std::get_if<GemmLaunch>(&launch);
  return gemm == nullptr ? nullptr : kernels_.fused().of(*gemm);
}

CudaRows Launcher::at(CudaRows rows, LaunchPosition position) const {
  rows.frame = parameter_block_;
  rows.step = static_cast<int32_t>(position.t());
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

Status Launcher::launch(const ElementwiseLaunch& launch, int64_t rows, LaunchPosition position,
                        LaunchQueue& queue) {
  const auto& kernel = kernels_.elementwise()[launch.kernel];
  CudaGrid grid = cuda_grid(kernel.shape, rows);
  grid.rows = at(grid.rows, position);
  parameters_[1] = &grid.rows;
  set_accesses(launch.accesses, position);
  const LaunchShape shape{dim3(grid.x, grid.y), dim3(static_cast<unsigned>(kernel.shape.threads))};
  return start(kernel.handle, shape, &parameters_[1], queue, "launching");
}

Status Launcher::launch(const LoopLaunch& launch, int64_t steps, LaunchPosition position,
                        LaunchQueue& queue) {
  const auto& kernel = kernels_.loop_kernels()[kernels_.loops().of(launch)];
  CudaGrid grid = cuda_grid(kernel.shape.shape, plan_.batch);
  grid.rows = at(grid.rows, position);
  auto count = static_cast<int32_t>(steps);
  parameters_[0] = &grid.rows;
  parameters_[1] = &count;
  set_accesses(launch.accesses, position);
  const LaunchShape shape{dim3(grid.x, grid.y),
                          dim3(static_cast<unsigned>(kernel.shape.shape.threads))};
  return start(kernel.handle, shape, parameters_.data(), queue, "launching");
}

Status Launcher::launch(const RecurrenceLaunch& launch, int64_t steps, LaunchPosition position,
                        LaunchQueue& queue) {
  const CudaRecurrenceKernels::Parameters& of = kernels_.recurrences().of(launch);
  const auto& kernel = kernels_.recurrence_kernels()[of.shape];
  Writer writer(instances_.data());
  writer.append(at({.count = static_cast<uint32_t>(plan_.batch)}, position));
  writer.append(static_cast<int32_t>(steps));
  writer.append(int32_t{0});
  for (const Access& access : of.accesses) writer.append(addresses_.at(access, position));
  void* parameters[] = {instances_.data()};
  return start(kernel.handle, shape_of(kernel.shape), parameters, queue, "running a recurrence");
}

Status Launcher::launch_fused(std::span<const StepLaunch> launches, LaunchQueue& queue) {
  const uint32_t index = fused_parameters(*launches[0].launch)->shape;
  const auto& kernel = kernels_.fused_kernels()[index];
  Writer writer(instances_.data());
  for (const StepLaunch& instance : launches) {
    writer.append(at({.count = static_cast<uint32_t>(plan_.batch)}, instance.position));
    for (const Access& access : fused_parameters(*instance.launch)->accesses) {
      writer.append(addresses_.at(access, instance.position));
    }
  }
  const LaunchShape shape{
      dim3(kernel.shape.tiles, kernel.shape.row_tiles, static_cast<unsigned>(launches.size())),
      dim3(kernel.shape.threads), kernel.shape.shared_bytes};
  void* parameters[] = {instances_.data()};
  return start(kernel.handle, shape, parameters, queue, "multiplying");
}

Status Launcher::warm_up(LaunchQueue& queue) {
  const auto once = [&queue, this](cudaKernel_t kernel, uint32_t threads, size_t shared_bytes,
                                   void** parameters) {
    const LaunchShape shape{dim3(1), dim3(threads), shared_bytes};
    return start(kernel, shape, parameters, queue, "launching");
  };
  CudaRows no_rows;
  int32_t no_steps = 0;
  parameters_[0] = &no_rows;
  parameters_[1] = &no_steps;
  std::ranges::fill(instances_, std::byte{});
  void* no_instances[] = {instances_.data()};
  for (size_t i = 0; i < accesses_.size(); ++i) parameters_[2 + i] = &accesses_[i];
  Status status;
  for (const auto& [kernel, shape] : kernels_.loop_kernels()) {
    if (!status) return status;
    status = once(kernel, static_cast<uint32_t>(shape.shape.threads), 0, parameters_.data());
  }
  parameters_[1] = &no_rows;
  for (const auto& [kernel, shape] : kernels_.elementwise()) {
    if (!status) return status;
    if (kernel == nullptr) continue;
    status = once(kernel, static_cast<uint32_t>(shape.threads), 0, &parameters_[1]);
  }
  for (const auto& [kernel, shape] : kernels_.fused_kernels()) {
    if (!status) return status;
    status = once(kernel, shape.threads, shape.shared_bytes, no_instances);
  }
  if (!status || kernels_.state_kernel() == nullptr) return status;
  Writer writer(instances_.data());  // of no kernel: of any, no access would be an address
  writer.append(CudaRows());
  writer.append(kNoKernel);
  return once(kernels_.state_kernel(), kernels_.states().shape().threads, 0, no_instances);
}

Result<std::string> Launcher::warm_up_recurrences(LaunchQueue& queue) {
  std::ranges::fill(instances_, std::byte{});
  void* no_instances[] = {instances_.data()};
  for (const auto& [kernel, shape] : kernels_.recurrence_kernels()) {
    const LaunchShape launch = shape_of(shape);
    const cudaError_t error = try_start(kernel, launch, no_instances, queue);
    if (is_without_room(error, launch)) {
      cudaGetLastError();
      if (shape.cluster > 1) {
        return fmt::format(
            "its kernel needs clusters of {} blocks, and the device has room for none",
            shape.cluster);
      }
      return fmt::format("its kernel needs {} blocks at once, and the device has room for fewer",
                         shape.blocks);
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
    if (Status status = start(kernels_.set_frame(), shape, parameters, queue, "setting addresses");
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
    const Status moved = start(kernels_.end_chunk(), shape, parameters, queue, "moving histories");
    histories = {};
    count = 0;
    return moved;
  };
  for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
    const Buffer& buffer = plan_.buffers[id];
    if (!keeps_history(buffer, sweep)) continue;
    const int64_t units =
        plan_.batch * buffer.width * static_cast<int64_t>(size_of(buffer.dtype)) / 2;
    // Row 0 at the greatest delay: the start of the buffer.
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

Status Launcher::copy(const CopyLaunch& launch, LaunchQueue& queue) {
  if (launch.transposed) return transpose(launch, queue);
  const Buffer& buffer = plan_.buffers[launch.target.buffer];
  return check_cuda(
      cudaMemcpyAsync(addresses_.pointer(launch.target, {}), addresses_.pointer(launch.source, {}),
                      static_cast<size_t>(launch.rows * launch.columns) * size_of(buffer.dtype),
                      cudaMemcpyDefault, queue.stream),
      "packing weights");
}

Status Launcher::transpose(const CopyLaunch& launch, LaunchQueue& queue) {
  const char* source = addresses_.pointer(launch.source, {});
  char* target = addresses_.pointer(launch.target, {});
  int64_t rows = launch.rows;
  int64_t columns = launch.columns;
  void* parameters[] = {&source, &target, &rows, &columns};
  const auto tiles = [](int64_t size) {
    return (size + kCudaTransposeTile - 1) / kCudaTransposeTile;
  };
  const LaunchShape shape{dim3(static_cast<unsigned>(tiles(rows) * tiles(columns))),
                          dim3(kCudaTransposeTile, kCudaTransposeThreads)};
  const DType dtype = plan_.buffers[launch.source.buffer].dtype;
  return start(kernels_.transpose(dtype), shape, parameters, queue, "transposing weights");
}

Status Launcher::reverse(const ReverseLaunch& launch, int64_t rows, LaunchPosition position,
                         LaunchQueue& queue) {
  constexpr int64_t kMostBlocks = 4096;
  // The whole sequence, whose end is read first.
  const char* source = addresses_.pointer(launch.source, {});
  char* target = addresses_.pointer(launch.target, position);
  int64_t first = position.chunk_start;
  auto batch = static_cast<unsigned>(plan_.batch);
  int64_t width = launch.width;
  int64_t source_stride = launch.source.stride;
  int64_t target_stride = launch.target.stride;
  void* parameters[] = {&source, &target, &sequences_.lengths, &sequences_.steps, &first, &batch,
                        &rows,   &width,  &source_stride,      &target_stride};
  const LaunchShape shape{dim3(blocks_for(rows * width, kMostBlocks)), dim3(kThreads)};
  const DType dtype = plan_.buffers[launch.source.buffer].dtype;
  return start(kernels_.reverse(dtype), shape, parameters, queue, "reversing a sequence");
}

Status Launcher::fill_mask(const MaskLaunch& launch, int64_t rows, LaunchPosition position,
                           LaunchQueue& queue) {
  char* target = addresses_.pointer(launch.target, position);
  auto kind = static_cast<int>(launch.kind);
  int64_t first = position.chunk_start;
  auto batch = static_cast<unsigned>(plan_.batch);
  void* parameters[] = {
      &target, &kind, &sequences_.lengths, &sequences_.reset, &sequences_.steps, &first,
      &batch,  &rows};
  const LaunchShape shape{dim3(blocks_for(rows, INT32_MAX)), dim3(kThreads)};
  return start(kernels_.mask(), shape, parameters, queue, "filling a mask");
}

Status Launcher::split(const SplitLaunch& launch, int64_t rows, LaunchPosition position,
                       LaunchQueue& queue) {
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
  const int64_t down = std::min((rows + kCudaSplitRows - 1) / kCudaSplitRows, kMostBlocks);
  const LaunchShape shape{
      dim3(static_cast<unsigned>((part + kElements - 1) / kElements), static_cast<unsigned>(down)),
      dim3(kCudaSplitThreads, kCudaSplitRows)};
  return start(kernels_.split(), shape, parameters, queue, "splitting an operand");
}

}  // namespace rnnc
