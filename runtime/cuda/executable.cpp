// Preparing:
// 1. Allocate the resident memory and the parameter block: what lacks most often is memory.
// 2. Compile and load the kernels.
// 3. Choose the products' algorithms, allocate their workspace, and run products and kernels once,
//    so that launches load nothing.
// 4. Capture the launches of neighbouring Step stages over one full chunk as one graph.
//
// A forward call runs its full chunks by replaying these graphs; what they read and write outside
// resident memory they find through the parameter block, which a kernel at the start of each sweep
// fills in the stream's order, and whose step a kernel at the end of each chunk moves on.
// Everything else, and everything on a stream that is being captured, is launched directly with
// addresses of its own.
#include <algorithm>

#include "runtime/cuda/addresses.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/cuda/graph.h"
#include "runtime/cuda/loaded_kernels.h"
#include "runtime/cuda/plan_products.h"

namespace rnnc {
namespace {

constexpr size_t kAlignment = 256;

size_t round_up(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Stages that run one after the other over a chunk: a Sequence stage, or neighbouring Step stages
/// of one sweep.
struct Segment {
  Domain domain = Domain::Sequence;
  uint32_t sweep = 0;
  size_t begin = 0;  // stages
  size_t end = 0;
  StepGraph graph;  // Step: one full chunk
};

class CudaExecutable : public Executable {
 public:
  static Result<std::unique_ptr<Executable>> prepare(Plan plan, CudaContext& context);
  ~CudaExecutable() override;
  Status forward(const ForwardArgs& args, bool run_once) override;

 private:
  /// How a launch finds its arrays.
  enum class Binding : uint8_t { Direct, Replayed };

  CudaExecutable(Plan plan, const CudaContext& context)
      : plan_(std::move(plan)), device_(context.device) {}

  Status check_sizes() const;
  Status allocate();
  Status load_kernels(const CudaContext& context);
  Status prepare_launches(CudaContext& context);
  void find_segments();
  Status warm_up_kernels(cudaStream_t stream);
  Status capture_graphs(cudaStream_t stream);

  Status fill_parameter_block(cudaStream_t stream);
  Status begin_states(const ForwardArgs& args, cudaStream_t stream);
  Status end_states(const ForwardArgs& args, cudaStream_t stream);
  Status run_once_stages(cudaStream_t stream);
  Status run_sweep(uint32_t sweep, int64_t steps, bool replay, cudaStream_t stream);
  Status run_chunk(uint32_t sweep, int64_t start, int64_t steps, bool replay, cudaStream_t stream);
  Status run_steps(const Segment& segment, int64_t start, int64_t steps, Binding binding,
                   cudaStream_t stream);
  Status end_chunk(uint32_t sweep, int64_t steps, bool advance, cudaStream_t stream);

  /// One launch over `rows` rows, but in Once stages, whose launches know their rows.
  Status launch(const Launch& launch, Domain domain, int64_t rows, Position position,
                Binding binding, cudaStream_t stream);
  Status launch(const ElementwiseLaunch& launch, int64_t rows, Position position, Binding binding,
                cudaStream_t stream);
  Status multiply(const LoadedKernels::ProductKernel& kernel, const GemmLaunch& gemm,
                  Position position, cudaStream_t stream);
  Status copy(const CopyLaunch& launch, cudaStream_t stream);
  Status transpose(const CopyLaunch& launch, cudaStream_t stream);
  Status reverse(const ReverseLaunch& launch, int64_t rows, Position position, cudaStream_t stream);
  Status fill_mask(const MaskLaunch& launch, int64_t rows, Position position, cudaStream_t stream);

  const Plan plan_;
  const CudaDevice device_;
  std::optional<LoadedKernels> kernels_;
  std::optional<PlanProducts> products_;
  std::optional<Addresses> addresses_;
  DeviceMemory memory_;  // resident buffers, then the parameter block
  int64_t* parameter_block_ = nullptr;
  DeviceMemory library_workspace_;
  std::vector<Segment> segments_;
  bool has_graphs_ = false;
  /// Of the call that is running.
  struct Sequences {
    const int32_t* lengths = nullptr;
    const uint8_t* reset = nullptr;
    int64_t steps = 0;
  };
  Sequences sequences_;
  // Parameters of the launch that is being made: forward allocates nothing.
  std::vector<CudaAccess> accesses_;
  std::vector<void*> parameters_;  // a CudaRows, then the accesses
};

// ---- Preparing ----

Result<std::unique_ptr<Executable>> CudaExecutable::prepare(Plan plan, CudaContext& context) {
  std::unique_ptr<CudaExecutable> executable(new CudaExecutable(std::move(plan), context));
  CudaExecutable& self = *executable;
  const Status ready = self.check_sizes()
                           .and_then([&] { return self.allocate(); })
                           .and_then([&] { return self.load_kernels(context); })
                           .and_then([&] { return self.prepare_launches(context); });
  if (!ready) return tl::unexpected(ready.error());
  return executable;
}

CudaExecutable::~CudaExecutable() {
  const DeviceScope scope(device_.index);
  const CaptureNeutralScope neutral;
  // Freeing memory waits for the device, so that nothing that still runs loses its code.
  memory_.reset();
  library_workspace_.reset();
  segments_.clear();
  kernels_.reset();
}

Status CudaExecutable::check_sizes() const {
  for (const Kernel& kernel : plan_.kernels) {
    const int64_t most = cuda_most_rows(kernel.length);
    if (plan_.batch > most / plan_.chunk) {
      return fail(
          "batch {} in chunks of {} steps is too large for a GPU: at most {} rows of {} "
          "elements work",
          plan_.batch, plan_.chunk, most, kernel.length);
    }
  }
  return {};
}

Status CudaExecutable::allocate() {
  size_t arguments = 0;
  for (const Kernel& kernel : plan_.kernels) {
    arguments = std::max(arguments, kernel.arguments.size());
  }
  accesses_.resize(arguments);
  parameters_.resize(arguments + 1);
  for (size_t i = 0; i < arguments; ++i) parameters_[i + 1] = &accesses_[i];

  size_t movable = 0;
  for (const Buffer& buffer : plan_.buffers) {
    if (buffer.placement != Placement::Resident) ++movable;
  }
  const size_t resident = round_up(static_cast<size_t>(plan_.resident_bytes));
  const size_t block = (movable + 1) * sizeof(int64_t);
  Result<DeviceMemory> memory = DeviceMemory::allocate(device_, resident + block);
  if (!memory) return tl::unexpected(memory.error());
  memory_ = std::move(*memory);
  parameter_block_ = reinterpret_cast<int64_t*>(memory_.data() + resident);
  addresses_.emplace(plan_, memory_.data());
  return {};
}

Status CudaExecutable::load_kernels(const CudaContext& context) {
  Result<LoadedKernels> kernels = LoadedKernels::load(plan_, context);
  if (!kernels) return tl::unexpected(kernels.error());
  kernels_.emplace(std::move(*kernels));
  return {};
}

Status CudaExecutable::prepare_launches(CudaContext& context) {
  Result<PlanProducts> products = PlanProducts::prepare(plan_, *kernels_, context);
  if (!products) return tl::unexpected(products.error());
  products_.emplace(std::move(*products));
  Result<DeviceMemory> workspace = DeviceMemory::allocate(device_, products_->workspace_bytes());
  if (!workspace) return tl::unexpected(workspace.error());
  library_workspace_ = std::move(*workspace);

  Result<OwnStream> stream = OwnStream::create();
  if (!stream) return tl::unexpected(stream.error());
  find_segments();
  return products_->warm_up(device_, library_workspace_.data(), stream->get())
      .and_then([&] { return warm_up_kernels(stream->get()); })
      .and_then([&] { return capture_graphs(stream->get()); });
}

/// Launches each kernel over no rows: the first launch of one that needs more stack than any before
/// it allocates and waits.
Status CudaExecutable::warm_up_kernels(cudaStream_t stream) {
  CudaRows no_rows;
  parameters_[0] = &no_rows;
  for (uint32_t i = 0; i < plan_.kernels.size(); ++i) {
    const LoadedKernels::PlanKernel& kernel = kernels_->of_plan(i);
    const dim3 threads(static_cast<unsigned>(kernel.shape.threads));
    const cudaError_t error =
        cudaLaunchKernel(kernel.handle, dim3(1), threads, parameters_.data(), 0, stream);
    if (error != cudaSuccess) return check_cuda(error, "launching");
  }
  return check_cuda(cudaStreamSynchronize(stream), "launching");
}

void CudaExecutable::find_segments() {
  for (size_t i = 0; i < plan_.stages.size(); ++i) {
    const Domain domain = plan_.stages[i].domain;
    if (domain == Domain::Once) continue;
    const uint32_t sweep = plan_.stages[i].sweep;
    const bool joins = domain == Domain::Step && !segments_.empty() &&
                       segments_.back().domain == Domain::Step && segments_.back().sweep == sweep;
    if (joins) {
      segments_.back().end = i + 1;
    } else {
      segments_.push_back(
          {.domain = domain, .sweep = sweep, .begin = i, .end = i + 1, .graph = {}});
    }
    has_graphs_ = has_graphs_ || domain == Domain::Step;
  }
}

Status CudaExecutable::capture_graphs(cudaStream_t stream) {
  for (Segment& segment : segments_) {
    if (segment.domain != Domain::Step) continue;
    const auto work = [&] { return run_steps(segment, 0, plan_.chunk, Binding::Replayed, stream); };
    Result<StepGraph> graph = StepGraph::capture(stream, work);
    if (!graph) return tl::unexpected(graph.error());
    segment.graph = std::move(*graph);
  }
  return {};
}

// ---- Running ----

Status CudaExecutable::forward(const ForwardArgs& args, bool run_once) {
  const DeviceScope scope(device_.index);
  if (!scope.status()) return scope.status();
  auto* const stream = static_cast<cudaStream_t>(args.stream);
  const Result<bool> capturing = is_capturing(stream);
  if (!capturing) return tl::unexpected(capturing.error());
  const bool replay = !*capturing && has_graphs_ && args.steps >= plan_.chunk;

  addresses_->bind(args);
  sequences_ = {args.lengths, args.reset, args.steps};
  if (run_once) {
    if (Status status = run_once_stages(stream); !status) return status;
  }
  if (Status status = begin_states(args, stream); !status) return status;
  for (uint32_t sweep = 0; sweep < plan_.sweeps; ++sweep) {
    if (Status status = run_sweep(sweep, args.steps, replay, stream); !status) return status;
  }
  return end_states(args, stream);
}

Status CudaExecutable::run_sweep(uint32_t sweep, int64_t steps, bool replay, cudaStream_t stream) {
  if (replay) {
    if (Status status = fill_parameter_block(stream); !status) return status;
  }
  for (int64_t start = 0; start < steps; start += plan_.chunk) {
    const int64_t count = std::min(plan_.chunk, steps - start);
    const bool full = replay && count == plan_.chunk;
    if (Status status = run_chunk(sweep, start, count, full, stream); !status) return status;
    if (Status status = end_chunk(sweep, count, full, stream); !status) return status;
  }
  return {};
}

Status CudaExecutable::fill_parameter_block(cudaStream_t stream) {
  const std::vector<int64_t>& block = addresses_->parameter_block();
  CudaFrameWords words;
  for (size_t first = 0; first < block.size(); first += kCudaFrameWords) {
    auto begin = static_cast<int>(first);
    auto count = static_cast<int>(std::min<size_t>(kCudaFrameWords, block.size() - first));
    std::copy_n(block.begin() + begin, count, std::begin(words.word));
    void* parameters[] = {&parameter_block_, &begin, &count, &words};
    if (Status status = check_cuda(cudaLaunchKernel(kernels_->set_frame(), dim3(1),
                                                    dim3(kCudaFrameWords), parameters, 0, stream),
                                   "launching");
        !status) {
      return status;
    }
  }
  return {};
}

Status CudaExecutable::run_once_stages(cudaStream_t stream) {
  for (const Stage& stage : plan_.stages) {
    if (stage.domain != Domain::Once) continue;
    for (const Launch& once : stage.launches) {
      if (Status status = launch(once, Domain::Once, 0, {}, Binding::Direct, stream); !status) {
        return status;
      }
    }
  }
  return {};
}

Status CudaExecutable::begin_states(const ForwardArgs& args, cudaStream_t stream) {
  for (size_t i = 0; i < plan_.states.size(); ++i) {
    const bool given = i < args.initial_states.size() && args.initial_states[i] != nullptr;
    const StatePlan& state = plan_.states[i];
    if (Status status = launch(given ? state.init_given : state.init_declared, plan_.batch, {},
                               Binding::Direct, stream);
        !status) {
      return status;
    }
  }
  return {};
}

Status CudaExecutable::end_states(const ForwardArgs& args, cudaStream_t stream) {
  for (size_t i = 0; i < args.final_states.size(); ++i) {
    if (args.final_states[i] == nullptr) continue;
    if (Status status =
            launch(plan_.states[i].write_final, plan_.batch, {}, Binding::Direct, stream);
        !status) {
      return status;
    }
  }
  return {};
}

Status CudaExecutable::run_chunk(uint32_t sweep, int64_t start, int64_t steps, bool replay,
                                 cudaStream_t stream) {
  for (const Segment& segment : segments_) {
    if (segment.sweep != sweep) continue;
    Status status;
    if (segment.domain == Domain::Sequence) {
      for (const Launch& sequence : plan_.stages[segment.begin].launches) {
        status = launch(sequence, Domain::Sequence, steps * plan_.batch, {.chunk_start = start},
                        Binding::Direct, stream);
        if (!status) return status;
      }
    } else if (replay) {
      status = segment.graph.replay(stream);
    } else {
      status = run_steps(segment, start, steps, Binding::Direct, stream);
    }
    if (!status) return status;
  }
  return {};
}

Status CudaExecutable::run_steps(const Segment& segment, int64_t start, int64_t steps,
                                 Binding binding, cudaStream_t stream) {
  for (size_t stage = segment.begin; stage < segment.end; ++stage) {
    for (int64_t step = 0; step < steps; ++step) {
      for (const Launch& one : plan_.stages[stage].launches) {
        if (Status status = launch(one, Domain::Step, plan_.batch,
                                   {.chunk_start = start, .step = step}, binding, stream);
            !status) {
          return status;
        }
      }
    }
  }
  return {};
}

/// Moves the histories, and the parameter block's step if graphs read it.
Status CudaExecutable::end_chunk(uint32_t sweep, int64_t steps, bool advance, cudaStream_t stream) {
  constexpr unsigned kThreads = 256;
  constexpr int64_t kMostBlocks = 1024;
  int64_t* block = advance ? parameter_block_ : nullptr;
  auto step_count = static_cast<int>(steps);
  CudaHistories histories;
  int count = 0;
  int64_t blocks = 1;
  const auto flush = [&]() -> Status {
    if (count == 0 && block == nullptr) return {};
    void* parameters[] = {&block, &step_count, &histories};
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(std::max(count, 1)));
    const cudaError_t error =
        cudaLaunchKernel(kernels_->end_chunk(), grid, dim3(kThreads), parameters, 0, stream);
    block = nullptr;
    count = 0;
    return check_cuda(error, "launching");
  };
  for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
    const Buffer& buffer = plan_.buffers[id];
    if (buffer.extent != Extent::Chunk || buffer.history == 0 || buffer.sweep != sweep) continue;
    const int64_t units =
        plan_.batch * buffer.width * static_cast<int64_t>(size_of(buffer.dtype)) / 2;
    // Row 0 at the greatest delay: the start of the buffer.
    const char* start = addresses_->pointer({.buffer = id, .delay = buffer.history}, {});
    histories.history[count++] = {reinterpret_cast<int64_t>(start), units, buffer.history};
    blocks = std::clamp((units + kThreads - 1) / kThreads, blocks, kMostBlocks);
    if (count < kCudaHistoriesPerLaunch) continue;
    if (Status status = flush(); !status) return status;
  }
  return flush();
}

// ---- Launches ----

Status CudaExecutable::launch(const Launch& launch_variant, Domain domain, int64_t rows,
                              Position position, Binding binding, cudaStream_t stream) {
  if (const auto* kernel = std::get_if<ElementwiseLaunch>(&launch_variant)) {
    return launch(*kernel, domain == Domain::Once ? kernel->once_rows : rows, position, binding,
                  stream);
  }
  if (const auto* gemm = std::get_if<GemmLaunch>(&launch_variant)) {
    if (const LoadedKernels::ProductKernel* kernel = kernels_->of_product(*gemm)) {
      return multiply(*kernel, *gemm, position, stream);
    }
    // In a graph of ours, products touch resident memory alone, whose addresses stay.
    return products_->run(*gemm, domain, domain == Domain::Once ? gemm->once_rows : rows,
                          *addresses_, position, library_workspace_.data(), stream);
  }
  if (const auto* reversal = std::get_if<ReverseLaunch>(&launch_variant)) {
    return reverse(*reversal, rows, position, stream);
  }
  if (const auto* mask = std::get_if<MaskLaunch>(&launch_variant)) {
    return fill_mask(*mask, rows, position, stream);
  }
  return copy(std::get<CopyLaunch>(launch_variant), stream);
}

Status CudaExecutable::launch(const ElementwiseLaunch& elementwise, int64_t rows, Position position,
                              Binding binding, cudaStream_t stream) {
  const LoadedKernels::PlanKernel& kernel = kernels_->of_plan(elementwise.kernel);
  CudaGrid grid = cuda_grid(kernel.shape, rows);
  grid.rows.frame = parameter_block_;
  parameters_[0] = &grid.rows;
  for (size_t i = 0; i < elementwise.accesses.size(); ++i) {
    const Access& access = elementwise.accesses[i];
    accesses_[i] = binding == Binding::Direct ? addresses_->direct(access, position)
                                              : addresses_->replayed(access, position.step);
  }
  return check_cuda(cudaLaunchKernel(kernel.handle, dim3(grid.x, grid.y),
                                     dim3(static_cast<unsigned>(kernel.shape.threads)),
                                     parameters_.data(), 0, stream),
                    "launching");
}

/// A product of a Step stage by a kernel of the plan's unit; like the library's, it touches
/// resident memory alone.
Status CudaExecutable::multiply(const LoadedKernels::ProductKernel& kernel, const GemmLaunch& gemm,
                                Position position, cudaStream_t stream) {
  const char* left = addresses_->pointer(gemm.left, position);
  const char* weight = addresses_->pointer(gemm.weight, position);
  char* out = addresses_->pointer(gemm.out, position);
  auto rows = static_cast<int>(plan_.batch);
  auto n = static_cast<int>(gemm.n);
  auto k = static_cast<int>(gemm.k);
  int64_t left_stride = gemm.left.stride;
  int64_t out_stride = gemm.out.stride;
  void* parameters[] = {&left, &weight, &out, &rows, &n, &k, &left_stride, &out_stride};
  const StepProduct& product = kernel.product;
  const dim3 grid(
      static_cast<unsigned>((gemm.n + product.block_columns - 1) / product.block_columns),
      static_cast<unsigned>((plan_.batch + product.block_rows - 1) / product.block_rows),
      static_cast<unsigned>(gemm.blocks));
  return check_cuda(
      cudaLaunchKernel(kernel.handle, grid, dim3(product.threads), parameters, 0, stream),
      "multiplying");
}

Status CudaExecutable::copy(const CopyLaunch& launch, cudaStream_t stream) {
  if (launch.transposed) return transpose(launch, stream);
  const Buffer& buffer = plan_.buffers[launch.target.buffer];
  return check_cuda(
      cudaMemcpyAsync(addresses_->pointer(launch.target, {}),
                      addresses_->pointer(launch.source, {}),
                      static_cast<size_t>(launch.rows * launch.columns) * size_of(buffer.dtype),
                      cudaMemcpyDefault, stream),
      "packing weights");
}

Status CudaExecutable::transpose(const CopyLaunch& launch, cudaStream_t stream) {
  const char* source = addresses_->pointer(launch.source, {});
  char* target = addresses_->pointer(launch.target, {});
  int64_t rows = launch.rows;
  int64_t columns = launch.columns;
  void* parameters[] = {&source, &target, &rows, &columns};
  const auto tiles = [](int64_t size) {
    return (size + kCudaTransposeTile - 1) / kCudaTransposeTile;
  };
  return check_cuda(
      cudaLaunchKernel(kernels_->transpose(plan_.buffers[launch.source.buffer].dtype),
                       dim3(static_cast<unsigned>(tiles(rows) * tiles(columns))),
                       dim3(kCudaTransposeTile, kCudaTransposeThreads), parameters, 0, stream),
      "transposing weights");
}

Status CudaExecutable::reverse(const ReverseLaunch& launch, int64_t rows, Position position,
                               cudaStream_t stream) {
  constexpr unsigned kThreads = 256;
  constexpr int64_t kMostBlocks = 4096;
  // The whole sequence, whose end is read first.
  const char* source = addresses_->pointer(launch.source, {});
  char* target = addresses_->pointer(launch.target, position);
  int64_t start = position.chunk_start;
  auto batch = static_cast<unsigned>(plan_.batch);
  int64_t width = launch.width;
  int64_t source_stride = launch.source.stride;
  int64_t target_stride = launch.target.stride;
  void* parameters[] = {&source, &target, &sequences_.lengths, &sequences_.steps, &start, &batch,
                        &rows,   &width,  &source_stride,      &target_stride};
  const int64_t blocks = std::min((rows * width + kThreads - 1) / kThreads, kMostBlocks);
  return check_cuda(
      cudaLaunchKernel(kernels_->reverse(plan_.buffers[launch.source.buffer].dtype),
                       dim3(static_cast<unsigned>(blocks)), dim3(kThreads), parameters, 0, stream),
      "reversing a sequence");
}

Status CudaExecutable::fill_mask(const MaskLaunch& launch, int64_t rows, Position position,
                                 cudaStream_t stream) {
  constexpr unsigned kThreads = 256;
  char* target = addresses_->pointer(launch.target, position);
  auto kind = static_cast<int>(launch.kind);
  int64_t start = position.chunk_start;
  auto batch = static_cast<unsigned>(plan_.batch);
  void* parameters[] = {
      &target, &kind, &sequences_.lengths, &sequences_.reset, &sequences_.steps, &start,
      &batch,  &rows};
  const auto blocks = static_cast<unsigned>((rows + kThreads - 1) / kThreads);
  return check_cuda(
      cudaLaunchKernel(kernels_->mask(), dim3(blocks), dim3(kThreads), parameters, 0, stream),
      "filling a mask");
}

}  // namespace

Result<std::unique_ptr<Executable>> prepare_cuda_executable(Plan plan, CudaContext& context) {
  return CudaExecutable::prepare(std::move(plan), context);
}

}  // namespace rnnc
