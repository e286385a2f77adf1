#include "runtime/cpu/cpu_executable.h"

#include <algorithm>
#include <cstring>

namespace rnnc {
namespace {

/// Fewer operations than this (some microseconds) are not worth a barrier.
constexpr double kWorthSharing = 65536;

/// Roughly how many simple operations a kernel does on an element.
double operations_per_element(const Kernel& kernel) {
  constexpr double kFunction = 20;
  double operations = 0;
  for (const Instruction& instruction : kernel.body) {
    const bool simple = instruction.kind != Instruction::Kind::Scalar ||
                        instruction.op <= Op::Div || instruction.op >= Op::Min;
    operations += simple ? 1 : kFunction;
  }
  return operations;
}

void* without_const(const void* pointer) {
  return const_cast<void*>(pointer);
}

}  // namespace

CpuExecutable::CpuExecutable(Plan plan, std::unique_ptr<CpuModule> module,
                             std::shared_ptr<ThreadPool> pool)
    : plan_(std::move(plan)), module_(std::move(module)), pool_(std::move(pool)) {}

Result<std::unique_ptr<CpuExecutable>> CpuExecutable::create(Plan plan,
                                                             std::unique_ptr<CpuModule> module,
                                                             std::shared_ptr<ThreadPool> pool) {
  std::unique_ptr<CpuExecutable> executable(
      new CpuExecutable(std::move(plan), std::move(module), std::move(pool)));
  if (Status status = executable->prepare(); !status) return tl::unexpected(status.error());
  return executable;
}

// --- Preparation -------------------------------------------------------------------------------

Status CpuExecutable::prepare() {
  int64_t packed_bytes = 0;
  for (const Stage& stage : plan_.stages) {
    PreparedLaunches& launches = stages_.emplace_back();
    for (const Launch& launch : stage.launches) {
      launches.push_back(prepare_launch(launch, packed_bytes));
    }
  }
  for (const StatePlan& state : plan_.states) {
    states_.push_back({prepare_launch(state.init_given, packed_bytes),
                       prepare_launch(state.init_declared, packed_bytes),
                       prepare_launch(state.write_final, packed_bytes)});
  }
  threads_ = useful_threads();

  const size_t scratch_bytes = (module_->scratch_bytes() + 255) / 256 * 256;
  auto resident = AlignedMemory::allocate(plan_.resident_bytes);
  auto packed = AlignedMemory::allocate(packed_bytes);
  auto scratch = AlignedMemory::allocate(scratch_bytes * threads_);
  for (const auto* memory : {&resident, &packed, &scratch}) {
    if (!*memory) return tl::unexpected(memory->error());
  }
  resident_ = std::move(*resident);
  packed_ = std::move(*packed);
  scratch_ = std::move(*scratch);

  size_t most_arguments = 0;
  for (const Kernel& kernel : plan_.kernels) {
    most_arguments = std::max(most_arguments, kernel.arguments.size());
  }
  walkers_.resize(threads_);
  for (int thread = 0; thread < threads_; ++thread) {
    walkers_[thread].thread = thread;
    walkers_[thread].arguments.resize(most_arguments);
    walkers_[thread].scratch = scratch_.data() + thread * scratch_bytes;
  }
  buffers_.resize(plan_.buffers.size());
  return {};
}

CpuExecutable::PreparedLaunch CpuExecutable::prepare_launch(const Launch& launch,
                                                            int64_t& packed_bytes) const {
  PreparedLaunch prepared;
  if (const auto* elementwise = std::get_if<ElementwiseLaunch>(&launch)) {
    for (const Access& access : elementwise->accesses) prepared.strides.push_back(access.stride);
    if (!elementwise->accesses.empty()) {
      const Kernel& kernel = plan_.kernels[elementwise->kernel];
      prepared.operations_per_row =
          operations_per_element(kernel) * static_cast<double>(kernel.length);
    }
  } else if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) {
    RNNC_CHECK(plan_.buffers[gemm->weight.buffer].extent == Extent::Invariant,
               "a product's weight varies over time");
    prepared.shape = {plan_.dtype, gemm->n, gemm->k, gemm->transposed};
    prepared.operations_per_row = static_cast<double>(gemm->n) * static_cast<double>(gemm->k);
    prepared.packed_offset = packed_bytes;
    packed_bytes += static_cast<int64_t>(rnnc::packed_bytes(module_->gemm(), prepared.shape));
  }
  return prepared;
}

int64_t CpuExecutable::rows_at_most(const Stage& stage, const Launch& launch) const {
  switch (stage.domain) {
    case Domain::Step:
      return plan_.batch;
    case Domain::Sequence:
      return plan_.batch * plan_.chunk;
    case Domain::Once:
      break;
  }
  if (const auto* elementwise = std::get_if<ElementwiseLaunch>(&launch)) {
    return elementwise->once_rows;
  }
  const auto* gemm = std::get_if<GemmLaunch>(&launch);
  return gemm != nullptr ? gemm->once_rows : 0;
}

/// As many threads as the largest launch of a step keeps busy, or of a chunk if no launch of a step
/// is worth sharing: the barriers of every step are as slow as there are threads.
int CpuExecutable::useful_threads() const {
  if (pool_ == nullptr) return 1;
  double step = 0;
  double chunk = 0;
  for (size_t i = 0; i < plan_.stages.size(); ++i) {
    const Stage& stage = plan_.stages[i];
    if (stage.domain == Domain::Once) continue;
    double& largest = stage.domain == Domain::Step ? step : chunk;
    for (size_t j = 0; j < stage.launches.size(); ++j) {
      const auto rows = static_cast<double>(rows_at_most(stage, stage.launches[j]));
      largest = std::max(largest, rows * stages_[i][j].operations_per_row);
    }
  }
  const double shares = (step >= kWorthSharing ? step : chunk) / (kWorthSharing / 2);
  return static_cast<int>(std::clamp(shares, 1.0, static_cast<double>(pool_->threads())));
}

// --- A call ------------------------------------------------------------------------------------

Status CpuExecutable::forward(const ForwardArgs& args, bool run_once) {
  args_ = &args;
  run_once_ = run_once;
  find_buffers(args);
  if (threads_ == 1) {
    walk(walkers_[0]);
  } else {
    pool_->run(threads_, walk_on_thread, this);
  }
  return {};
}

void CpuExecutable::find_buffers(const ForwardArgs& args) {
  const auto of_caller = [&](const Buffer& buffer) -> void* {
    switch (buffer.role) {
      case Role::Input:
        return without_const(args.inputs[buffer.slot]);
      case Role::Param:
        return without_const(args.params[buffer.slot]);
      case Role::Output:
        return args.outputs[buffer.slot];
      case Role::InitialState:
        return args.initial_states.empty() ? nullptr
                                           : without_const(args.initial_states[buffer.slot]);
      case Role::FinalState:
        return args.final_states.empty() ? nullptr : args.final_states[buffer.slot];
      case Role::Temporary:
        break;
    }
    RNNC_CHECK(false, "the caller owns no temporaries");
  };
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    const Buffer& buffer = plan_.buffers[i];
    switch (buffer.placement) {
      case Placement::Caller:
        buffers_[i] = static_cast<std::byte*>(of_caller(buffer));
        break;
      case Placement::Workspace:
        buffers_[i] = static_cast<std::byte*>(args.workspace) + buffer.offset;
        break;
      case Placement::Resident:
        buffers_[i] = resident_.data() + buffer.offset;
        break;
    }
  }
}

void CpuExecutable::walk_on_thread(void* executable, int thread) {
  auto* self = static_cast<CpuExecutable*>(executable);
  self->walk(self->walkers_[thread]);
}

void CpuExecutable::walk(Walker& walker) {
  walker.shared = false;
  if (run_once_) run_once_stages(walker);
  for (size_t i = 0; i < states_.size(); ++i) {
    const StatePlan& state = plan_.states[i];
    const bool given = i < args_->initial_states.size() && args_->initial_states[i] != nullptr;
    run_elementwise(walker, given ? state.init_given : state.init_declared,
                    given ? states_[i].init_given : states_[i].init_declared, plan_.batch, {});
  }
  for (int64_t t0 = 0; t0 < args_->steps; t0 += plan_.chunk) {
    const int64_t steps = std::min(plan_.chunk, args_->steps - t0);
    run_chunk(walker, t0, steps);
    keep_history(walker, steps);
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    if (i >= args_->final_states.size() || args_->final_states[i] == nullptr) continue;
    run_elementwise(walker, plan_.states[i].write_final, states_[i].write_final, plan_.batch, {});
  }
}

void CpuExecutable::run_once_stages(Walker& walker) {
  for (size_t i = 0; i < plan_.stages.size(); ++i) {
    const Stage& stage = plan_.stages[i];
    if (stage.domain != Domain::Once) continue;
    for (size_t j = 0; j < stage.launches.size(); ++j) {
      const Launch& launch = stage.launches[j];
      if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) pack(walker, *gemm, stages_[i][j]);
      run(walker, launch, stages_[i][j], rows_at_most(stage, launch), {});
    }
  }
  for (size_t i = 0; i < plan_.stages.size(); ++i) {
    const Stage& stage = plan_.stages[i];
    if (stage.domain == Domain::Once) continue;
    for (size_t j = 0; j < stage.launches.size(); ++j) {
      const auto* gemm = std::get_if<GemmLaunch>(&stage.launches[j]);
      if (gemm != nullptr) pack(walker, *gemm, stages_[i][j]);
    }
  }
}

void CpuExecutable::run_chunk(Walker& walker, int64_t t0, int64_t steps) {
  for (size_t i = 0; i < plan_.stages.size(); ++i) {
    const Stage& stage = plan_.stages[i];
    if (stage.domain == Domain::Once) continue;
    const bool sequence = stage.domain == Domain::Sequence;
    const int64_t rows = sequence ? steps * plan_.batch : plan_.batch;
    const int64_t end = sequence ? t0 + 1 : t0 + steps;
    for (int64_t t = t0; t < end; ++t) {
      for (size_t j = 0; j < stage.launches.size(); ++j) {
        run(walker, stage.launches[j], stages_[i][j], rows, {t, t0});
      }
    }
  }
}

void CpuExecutable::keep_history(Walker& walker, int64_t steps) {
  if (!enter(walker, false)) return;
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    const Buffer& buffer = plan_.buffers[i];
    if (buffer.extent != Extent::Chunk || buffer.history == 0) continue;
    const size_t slot = plan_.batch * buffer.width * size_of(buffer.dtype);
    std::memmove(buffers_[i], buffers_[i] + steps * slot, buffer.history * slot);
  }
}

// --- Launches ----------------------------------------------------------------------------------

void CpuExecutable::run(Walker& walker, const Launch& launch, const PreparedLaunch& prepared,
                        int64_t rows, Position position) {
  if (const auto* elementwise = std::get_if<ElementwiseLaunch>(&launch)) {
    run_elementwise(walker, *elementwise, prepared, rows, position);
  } else if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) {
    run_gemm(walker, *gemm, prepared, rows, position);
  } else {
    run_copy(walker, std::get<CopyLaunch>(launch));
  }
}

void CpuExecutable::run_elementwise(Walker& walker, const ElementwiseLaunch& launch,
                                    const PreparedLaunch& prepared, int64_t rows,
                                    Position position) {
  const bool shared = is_shared(prepared.operations_per_row * static_cast<double>(rows), rows);
  if (!enter(walker, shared)) return;
  for (size_t i = 0; i < launch.accesses.size(); ++i) {
    walker.arguments[i] = locate(launch.accesses[i], position);
  }
  const Share part = share(walker, shared);
  module_->kernels()[launch.kernel](walker.arguments.data(), prepared.strides.data(),
                                    part.begin(rows), part.end(rows), walker.scratch);
}

void CpuExecutable::run_gemm(Walker& walker, const GemmLaunch& launch,
                             const PreparedLaunch& prepared, int64_t rows, Position position) {
  const CpuGemm& gemm = module_->gemm();
  const bool shared = is_shared(prepared.operations_per_row * static_cast<double>(rows),
                                multiply_units(gemm, prepared.shape, rows));
  if (!enter(walker, shared)) return;
  const GemmOperands operands = {.left = locate(launch.left, position),
                                 .left_stride = launch.left.stride,
                                 .packed = packed_.data() + prepared.packed_offset,
                                 .out = locate(launch.out, position),
                                 .out_stride = launch.out.stride,
                                 .rows = rows};
  multiply(gemm, prepared.shape, operands, share(walker, shared));
}

void CpuExecutable::pack(Walker& walker, const GemmLaunch& launch, const PreparedLaunch& prepared) {
  const CpuGemm& gemm = module_->gemm();
  const bool shared =
      is_shared(prepared.operations_per_row, multiply_units(gemm, prepared.shape, 1));
  if (!enter(walker, shared)) return;
  pack_weights(gemm, prepared.shape, locate(launch.weight, {}),
               packed_.data() + prepared.packed_offset, share(walker, shared));
}

void CpuExecutable::run_copy(Walker& walker, const CopyLaunch& launch) {
  if (!enter(walker, false)) return;
  const size_t element = size_of(plan_.buffers[launch.source.buffer].dtype);
  std::memcpy(locate(launch.target, {}), locate(launch.source, {}), launch.count * element);
}

bool CpuExecutable::is_shared(double operations, int64_t units) const {
  return threads_ > 1 && units > 1 && operations >= kWorthSharing;
}

/// Whether this thread takes part in the launch that comes now, after waiting for what the last
/// one wrote if that was, or this is, more than one thread's work.
bool CpuExecutable::enter(Walker& walker, bool shared) {
  if (shared || walker.shared) pool_->barrier();
  walker.shared = shared;
  return shared || walker.thread == 0;
}

Share CpuExecutable::share(const Walker& walker, bool shared) const {
  return shared ? Share{walker.thread, threads_} : Share{};
}

std::byte* CpuExecutable::locate(const Access& access, Position position) const {
  const Buffer& buffer = plan_.buffers[access.buffer];
  int64_t row = 0;
  switch (buffer.extent) {
    case Extent::Invariant:
    case Extent::Batch:
      break;
    case Extent::Steps:
      row = (position.t - access.delay) * plan_.batch;
      break;
    case Extent::Chunk:
      row = (position.t - position.t0 + buffer.history - access.delay) * plan_.batch;
      break;
  }
  return buffers_[access.buffer] +
         (row * buffer.width + access.column) * static_cast<int64_t>(size_of(buffer.dtype));
}

}  // namespace rnnc
