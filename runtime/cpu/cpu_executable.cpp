#include "runtime/cpu/cpu_executable.h"

#include <algorithm>
#include <cstring>

#include "codegen/cpu/kernel_cost.h"

namespace rnnc {
namespace {

/// Fewer operations than this (some microseconds) are not worth a hand-over.
constexpr double kWorthSharing = 65536;

template <typename T>
void transpose(const std::byte* source, std::byte* target, int64_t rows, int64_t columns) {
  const T* from = reinterpret_cast<const T*>(source);
  T* to = reinterpret_cast<T*>(target);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      to[column * rows + row] = from[row * columns + column];
    }
  }
}

}  // namespace

CpuExecutable::CpuExecutable(Plan plan, std::unique_ptr<CpuModule> module)
    : plan_(std::move(plan)), module_(std::move(module)) {}

Result<std::unique_ptr<CpuExecutable>> CpuExecutable::create(Plan plan,
                                                             std::unique_ptr<CpuModule> module,
                                                             ThreadPools& pools) {
  std::unique_ptr<CpuExecutable> executable(new CpuExecutable(std::move(plan), std::move(module)));
  if (Status status = executable->prepare(pools); !status) return tl::unexpected(status.error());
  return executable;
}

// --- Preparation -------------------------------------------------------------------------------

Status CpuExecutable::prepare(ThreadPools& pools) {
  int64_t packed_bytes = 0;
  for (const Stage& stage : plan_.stages) {
    auto& launches = stages_.emplace_back();
    for (const Launch& launch : stage.launches) {
      launches.push_back(prepare_launch(launch, packed_bytes));
    }
  }
  for (const StatePlan& state : plan_.states) {
    states_.push_back({prepare_launch(state.init_given, packed_bytes),
                       prepare_launch(state.init_declared, packed_bytes),
                       prepare_launch(state.write_final, packed_bytes)});
  }
  const int threads = std::min(useful_threads(), pools.most_threads());
  if (threads > 1) pool_ = &pools.of(threads);

  scratch_stride_ = (module_->scratch_bytes() + 255) / 256 * 256;
  auto resident = AlignedMemory::allocate(plan_.resident_bytes);
  auto packed = AlignedMemory::allocate(packed_bytes);
  auto scratch = AlignedMemory::allocate(scratch_stride_ * threads);
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
  arguments_.resize(most_arguments);
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
          static_cast<double>(operations_per_vector(kernel) * kernel.length);
    }
  } else if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) {
    RNNC_CHECK(plan_.buffers[gemm->weight.buffer].extent == Extent::Invariant,
               "a product's weight varies over time");
    prepared.shape = {plan_.dtype, gemm->n, gemm->k, gemm->transposed};
    prepared.operations_per_row = static_cast<double>(gemm->blocks) * static_cast<double>(gemm->n) *
                                  static_cast<double>(gemm->k);
    prepared.packed_offset = packed_bytes;
    prepared.packed_bytes =
        static_cast<int64_t>(rnnc::packed_bytes(module_->gemm(), prepared.shape));
    packed_bytes += gemm->blocks * prepared.packed_bytes;
  } else if (const auto* reverse = std::get_if<ReverseLaunch>(&launch)) {
    prepared.operations_per_row = static_cast<double>(reverse->width);
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
/// is worth sharing: more would only slow the hand-over at every step.
int CpuExecutable::useful_threads() const {
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
  constexpr double kMostThreads = 4096;
  const double shares = (step >= kWorthSharing ? step : chunk) / (kWorthSharing / 2);
  return static_cast<int>(std::clamp(shares, 1.0, kMostThreads));
}

// --- A call ------------------------------------------------------------------------------------

Status CpuExecutable::forward(const ForwardArgs& args, bool run_once) {
  steps_ = args.steps;
  lengths_ = args.lengths;
  reset_ = args.reset;
  find_buffers(args);
  if (run_once) run_once_stages();
  for (size_t i = 0; i < states_.size(); ++i) {
    const StatePlan& state = plan_.states[i];
    const bool given = args.initial_states[i] != nullptr;
    run(given ? state.init_given : state.init_declared,
        given ? states_[i].init_given : states_[i].init_declared, plan_.batch, {});
  }
  for (uint32_t sweep = 0; sweep < plan_.sweeps; ++sweep) run_sweep(sweep);
  for (size_t i = 0; i < states_.size(); ++i) {
    if (args.final_states[i] == nullptr) continue;
    run(plan_.states[i].write_final, states_[i].write_final, plan_.batch, {});
  }
  return {};
}

void CpuExecutable::find_buffers(const ForwardArgs& args) {
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    buffers_[i] = memory_of(plan_.buffers[i], args);
  }
}

std::byte* CpuExecutable::memory_of(const Buffer& buffer, const ForwardArgs& args) const {
  const auto bytes = [](const void* pointer) {
    return static_cast<std::byte*>(const_cast<void*>(pointer));
  };
  switch (buffer.placement) {
    case Placement::Workspace:
      return bytes(args.workspace) + (buffer.extent == Extent::Steps
                                          ? plan_.workspace_bytes + buffer.offset * args.steps
                                          : buffer.offset);
    case Placement::Resident:
      return resident_.data() + buffer.offset;
    case Placement::Caller:
      break;
  }
  switch (buffer.role) {
    case Role::Input:
      return bytes(args.inputs[buffer.slot]);
    case Role::Param:
      return bytes(args.params[buffer.slot]);
    case Role::Output:
      return bytes(args.outputs[buffer.slot]);
    case Role::InitialState:
      return bytes(args.initial_states[buffer.slot]);
    case Role::FinalState:
      return bytes(args.final_states[buffer.slot]);
    case Role::Temporary:
      break;
  }
  RNNC_CHECK(false, "the caller owns no temporaries");
}

void CpuExecutable::run_once_stages() {
  for (size_t i = 0; i < plan_.stages.size(); ++i) {
    const Stage& stage = plan_.stages[i];
    if (stage.domain != Domain::Once) continue;
    for (size_t j = 0; j < stage.launches.size(); ++j) {
      const Launch& launch = stage.launches[j];
      if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) pack(*gemm, stages_[i][j]);
      run_launch(launch, stages_[i][j], rows_at_most(stage, launch), {});
    }
  }
  // What these stages made are weights of the others.
  for (size_t i = 0; i < plan_.stages.size(); ++i) {
    const Stage& stage = plan_.stages[i];
    if (stage.domain == Domain::Once) continue;
    for (size_t j = 0; j < stage.launches.size(); ++j) {
      const auto* gemm = std::get_if<GemmLaunch>(&stage.launches[j]);
      if (gemm != nullptr) pack(*gemm, stages_[i][j]);
    }
  }
}

void CpuExecutable::run_sweep(uint32_t sweep) {
  for (int64_t t0 = 0; t0 < steps_; t0 += plan_.chunk) {
    const int64_t steps = std::min(plan_.chunk, steps_ - t0);
    run_chunk(sweep, t0, steps);
    keep_history(sweep, steps);
  }
}

void CpuExecutable::run_chunk(uint32_t sweep, int64_t t0, int64_t steps) {
  for (size_t i = 0; i < plan_.stages.size(); ++i) {
    const Stage& stage = plan_.stages[i];
    if (stage.domain == Domain::Once || stage.sweep != sweep) continue;
    const bool sequence = stage.domain == Domain::Sequence;
    const int64_t rows = sequence ? steps * plan_.batch : plan_.batch;
    const int64_t end = sequence ? t0 + 1 : t0 + steps;
    for (int64_t t = t0; t < end; ++t) {
      for (size_t j = 0; j < stage.launches.size(); ++j) {
        run_launch(stage.launches[j], stages_[i][j], rows, {t, t0});
      }
    }
  }
}

void CpuExecutable::keep_history(uint32_t sweep, int64_t steps) {
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    const Buffer& buffer = plan_.buffers[i];
    if (buffer.extent != Extent::Chunk || buffer.history == 0 || buffer.sweep != sweep) continue;
    const size_t slot = plan_.batch * buffer.width * size_of(buffer.dtype);
    std::memmove(buffers_[i], buffers_[i] + steps * slot, buffer.history * slot);
  }
}

// --- Launches ----------------------------------------------------------------------------------

template <typename Work>
void CpuExecutable::share_out(int64_t units, double operations, const Work& work) {
  if (pool_ == nullptr || units < 2 || operations < kWorthSharing) {
    for (int64_t unit = 0; unit < units; ++unit) work(unit, 0);
    return;
  }
  pool_->run(
      units,
      [](const void* context, int64_t unit, int thread) {
        (*static_cast<const Work*>(context))(unit, thread);
      },
      &work);
}

template <typename Work>
void CpuExecutable::share_out_rows(int64_t rows, double operations_per_row, const Work& work) {
  // A few units per thread, so that a thread that is late leaves some to the others.
  const int64_t units = pool_ == nullptr ? 1 : std::min<int64_t>(rows, 4 * pool_->threads());
  share_out(units, operations_per_row * static_cast<double>(rows), [&](int64_t unit, int thread) {
    work(rows * unit / units, rows * (unit + 1) / units, thread);
  });
}

void CpuExecutable::run_launch(const Launch& launch, const PreparedLaunch& prepared, int64_t rows,
                               Position position) {
  std::visit([&](const auto& kind) { run(kind, prepared, rows, position); }, launch);
}

void CpuExecutable::run(const ElementwiseLaunch& launch, const PreparedLaunch& prepared,
                        int64_t rows, Position position) {
  for (size_t i = 0; i < launch.accesses.size(); ++i) {
    arguments_[i] = locate(launch.accesses[i], position);
  }
  const CpuKernel kernel = module_->kernels()[launch.kernel];
  share_out_rows(rows, prepared.operations_per_row, [&](int64_t begin, int64_t end, int thread) {
    kernel(arguments_.data(), prepared.strides.data(), begin, end,
           scratch_.data() + thread * scratch_stride_);
  });
}

void CpuExecutable::run(const GemmLaunch& launch, const PreparedLaunch& prepared, int64_t rows,
                        Position position) {
  const CpuGemm& gemm = module_->gemm();
  const auto element = static_cast<int64_t>(size_of(plan_.dtype));
  const std::byte* left = locate(launch.left, position);
  const std::byte* packed = packed_.data() + prepared.packed_offset;
  std::byte* out = locate(launch.out, position);
  const int64_t units = multiply_units(gemm, prepared.shape, rows);
  share_out(launch.blocks * units, prepared.operations_per_row * static_cast<double>(rows),
            [&](int64_t unit, int) {
              const int64_t block = unit / units;
              const GemmOperands operands = {.left = left + block * launch.k * element,
                                             .left_stride = launch.left.stride,
                                             .packed = packed + block * prepared.packed_bytes,
                                             .out = out + block * launch.n * element,
                                             .out_stride = launch.out.stride,
                                             .rows = rows};
              multiply_unit(gemm, prepared.shape, operands, unit % units);
            });
}

void CpuExecutable::pack(const GemmLaunch& launch, const PreparedLaunch& prepared) {
  const CpuGemm& gemm = module_->gemm();
  const int64_t weight_bytes = launch.n * launch.k * static_cast<int64_t>(size_of(plan_.dtype));
  const std::byte* weight = locate(launch.weight, {});
  std::byte* packed = packed_.data() + prepared.packed_offset;
  const int64_t panels = panel_count(gemm, prepared.shape);
  share_out(launch.blocks * panels, prepared.operations_per_row, [&](int64_t unit, int) {
    const int64_t block = unit / panels;
    pack_panel(gemm, prepared.shape, weight + block * weight_bytes,
               packed + block * prepared.packed_bytes, unit % panels);
  });
}

void CpuExecutable::run(const CopyLaunch& launch, const PreparedLaunch& /*prepared*/,
                        int64_t /*rows*/, Position /*position*/) {
  const size_t element = size_of(plan_.buffers[launch.source.buffer].dtype);
  const std::byte* source = locate(launch.source, {});
  std::byte* target = locate(launch.target, {});
  if (!launch.transposed) {
    std::memcpy(target, source, launch.rows * launch.columns * element);
  } else if (element == sizeof(double)) {
    transpose<double>(source, target, launch.rows, launch.columns);
  } else {
    transpose<float>(source, target, launch.rows, launch.columns);
  }
}

void CpuExecutable::run(const ReverseLaunch& launch, const PreparedLaunch& prepared, int64_t rows,
                        Position position) {
  const size_t element = size_of(plan_.buffers[launch.source.buffer].dtype);
  const size_t bytes = launch.width * element;
  const std::byte* source = locate(launch.source, {});
  std::byte* target = locate(launch.target, position);
  share_out_rows(rows, prepared.operations_per_row, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t sequence = row % plan_.batch;
      const int64_t step = length_of(sequence) - 1 - (position.t + row / plan_.batch);
      std::byte* to = target + row * launch.target.stride * element;
      if (step < 0) {
        std::memset(to, 0, bytes);
      } else {
        const int64_t from = step * plan_.batch + sequence;
        std::memcpy(to, source + from * launch.source.stride * element, bytes);
      }
    }
  });
}

void CpuExecutable::run(const MaskLaunch& launch, const PreparedLaunch& /*prepared*/, int64_t rows,
                        Position position) {
  std::byte* target = locate(launch.target, position);
  for (int64_t row = 0; row < rows; ++row) {
    const bool value = mask_value(launch.kind, position.t + row / plan_.batch, row % plan_.batch);
    if (plan_.dtype == DType::f64) {
      reinterpret_cast<double*>(target)[row * launch.target.stride] = value ? 1 : 0;
    } else {
      reinterpret_cast<float*>(target)[row * launch.target.stride] = value ? 1 : 0;
    }
  }
}

int64_t CpuExecutable::length_of(int64_t sequence) const {
  return lengths_ == nullptr ? steps_ : std::clamp<int64_t>(lengths_[sequence], 0, steps_);
}

bool CpuExecutable::mask_value(MaskLaunch::Kind kind, int64_t t, int64_t sequence) const {
  const int64_t length = length_of(sequence);
  switch (kind) {
    case MaskLaunch::Kind::Valid:
      return t < length;
    case MaskLaunch::Kind::Reset:
      return reset_ != nullptr && reset_[t * plan_.batch + sequence] != 0;
    case MaskLaunch::Kind::ResetReverse:
      break;
  }
  return reset_ != nullptr && 0 < t && t < length &&
         reset_[(length - t) * plan_.batch + sequence] != 0;
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
