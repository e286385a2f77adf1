#include "runtime/cuda/launcher.h"

#include <algorithm>
#include <cstring>

#include "ir/base/arithmetic.h"
#include "ir/plan/alignment.h"
#include "ir/plan/launches/launches.h"
#include "runtime/cuda/start_kernel.h"

namespace rnnc::cuda {
namespace {

LaunchShape launch_shape(const CudaRecurrenceShape& shape) {
  return {dim3(shape.blocks), dim3(shape.threads), shape.shared_bytes, shape.cooperative,
          shape.cluster};
}

size_t most_arguments(const Plan& plan) {
  size_t most = 0;
  for (const Kernel& kernel : plan.kernels) most = std::max(most, kernel.arguments.size());
  return most;
}

/// Of a launch of states' steps: about as many as a large GPU runs at once.
constexpr uint32_t kMostStateBlocks = 2048;

/// Of the parameter of a kernel that has all of its launches' arrays in one.
size_t parameter_bytes(const CudaKernel& kernel) {
  const auto* fused = std::get_if<CudaFusedShape>(&kernel.shape);
  const auto* recurrence = std::get_if<CudaRecurrenceShape>(&kernel.shape);
  const auto* states = std::get_if<CudaStatesShape>(&kernel.shape);
  if (fused != nullptr) return size_t{fused->most_instances} * fused->instance_bytes;
  if (recurrence != nullptr) return recurrence->bytes;
  return states == nullptr ? 0 : states->bytes;
}

size_t most_parameter_bytes(const CudaModule& module) {
  size_t most = sizeof(CudaRows) + 2 * sizeof(uint32_t);  // of a launch of no state
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
                   char* program_memory, int64_t* parameter_block)
    : plan_(plan),
      kernels_(kernels),
      products_(products),
      addresses_(plan, program_memory),
      parameter_block_(parameter_block),
      accesses_(most_arguments(plan) + 2),  // of a scan its exchange and partials
      apart_(accesses_.size()),
      parameters_(accesses_.size() + 3),
      instances_(most_parameter_bytes(kernels.module())) {
  for_each_launch(plan, [&](LaunchId id, const Launch& launch) {
    if (makes_whole_sum(plan, launch)) whole_sums_.push_back(id);
  });
  const auto is_written = [&](BufferId buffer) {
    return std::ranges::any_of(
        whole_sums_, [&](LaunchId id) { return sums_of(launch_of(id)).front() == buffer; });
  };
  for (uint32_t sweep = 0; sweep < plan.sweeps; ++sweep) {
    cleared_.push_back(cleared_buffers(plan, sweep));
    std::erase_if(cleared_.back(), is_written);
  }
}

void Launcher::bind(const Call& call) {
  addresses_.bind(call);
  call_ = {call.lengths, call.reset, call.steps, call.piece.first_step, call.piece.begins};
}

// ---- By domain ----

Status Launcher::once(size_t stage, LaunchQueue& queue) {
  const std::vector<Launch>& launches = plan_.stages[stage].launches;
  for (size_t first = 0; first < launches.size();) {
    const size_t copies = copies_from({stage, first});
    const LaunchId id{stage, first};
    const Run at{.id = id, .rows = once_rows(plan_, launches[first])};
    const Status status = copies > 0 ? copy(id, copies, queue) : run(at, queue);
    if (!status) return status;
    first += std::max<size_t>(copies, 1);
  }
  return {};
}

Status Launcher::run(const Run& at, LaunchQueue& queue) {
  return std::visit([&](const auto& one) { return run(one, at, queue); }, launch_of(at.id));
}

Status Launcher::plain(const Run& at, LaunchQueue& queue) const {
  const bool has_kernel = module().of(at.id).kernel != kNoCudaKernel;
  return run_sequence({.plan = plan_,
                       .addresses = addresses_,
                       .call = call_,
                       .queue = queue,
                       .kernel = has_kernel ? kernel_of(at.id) : nullptr,
                       .rows = at.rows,
                       .first = at.first},
                      launch_of(at.id));
}

Status Launcher::states(std::span<const StateLaunch> launches, LaunchQueue& queue) {
  if (launches.empty()) return {};
  const uint32_t kernel = module().states;
  const auto& shape = std::get<CudaStatesShape>(module().kernels[kernel].shape);
  uint32_t count = 0;
  int64_t all_steps = 0;
  dim3 grid(0, 0, 0);
  const auto flush = [&]() -> Status {
    if (count == 0) return {};
    void* parameters[] = {instances_.data()};
    grid.z = count;
    if (shape.apart > 0) {
      Writer(instances_.data() + shape.bytes - sizeof(int64_t)).append(all_steps);
      const uint32_t deep = std::max(1U, kMostStateBlocks / (grid.x * grid.y));
      grid.z = static_cast<uint32_t>(std::min<int64_t>(all_steps, deep));
    }
    const LaunchShape all{grid, dim3(shape.threads)};
    count = 0;
    all_steps = 0;
    grid = dim3(0, 0, 0);
    return start(kernels_[kernel], all, parameters, queue, "launching");
  };
  for (size_t i = 0; i < launches.size();) {
    const StateLaunch& first = launches[i];
    const uint32_t steps =
        find_steps(launches.subspan(i, shape.apart > 0 ? launches.size() - i : 1));
    if (count == shape.most_instances) {
      if (Status status = flush(); !status) return status;
    }
    const Kernel& of = plan_.kernels[first.launch->kernel];
    const CudaGrid own = cuda_grid(cuda_kernel_shape(of, shape.items), plan_.batch);
    grid.x = std::max(grid.x, own.x);
    grid.y = std::max(grid.y, own.y);
    all_steps += steps;
    std::byte* const instance = instances_.data() + count * shape.instance_bytes;
    Writer writer(instance);
    writer.append(rows_at(own.rows, first.position));
    writer.append(first.launch->kernel);
    writer.append(steps);
    Writer apart(instance + shape.apart);
    for (size_t a = 0; a < first.launch->accesses.size(); ++a) {
      writer.append(accesses_[a]);
      if (shape.apart > 0) apart.append(apart_[a]);
    }
    if (shape.turn > 0) Writer(instance + shape.turn).append(turn_at(*first.launch, first.turn));
    if (shape.hide > 0) Writer(instance + shape.hide).append(hide_at(first));
    ++count;
    i += steps;
  }
  return flush();
}

uint32_t Launcher::find_steps(std::span<const StateLaunch> launches) {
  const StateLaunch& first = launches[0];
  const std::vector<Access>& accesses = first.launch->accesses;
  for (size_t i = 0; i < accesses.size(); ++i) {
    accesses_[i] = addresses_.at(accesses[i], first.position);
  }
  const auto most = static_cast<uint32_t>(launches.size());
  for (uint32_t step = 1; step < most; ++step) {
    const StateLaunch& next = launches[step];
    StateTurn turn = first.turn;
    if (turn.steps > 0) turn.place -= step;
    const bool is_step = next.launch->kernel == first.launch->kernel &&
                         next.position.order() == first.position.order() && next.turn == turn &&
                         next.state == first.state && next.entries == first.entries;
    if (!is_step) return step;
    for (size_t i = 0; i < accesses.size(); ++i) {
      const CudaAccess own = addresses_.at(next.launch->accesses[i], next.position);
      if (step == 1) apart_[i] = own.address - accesses_[i].address;
      CudaAccess even = accesses_[i];
      even.address += step * apart_[i];
      if (own != even) return step;
    }
  }
  return most;
}

CudaStateTurn Launcher::turn_at(const ElementwiseLaunch& launch, const StateTurn& turn) const {
  const Buffer& caller = plan_.buffers[launch.accesses[turn.caller].buffer];
  return {.lengths = call_.lengths,
          .first = call_.first_step,
          .call_steps = call_.steps,
          .apart = turn.apart * static_cast<int64_t>(size_of(caller.dtype)),
          .caller = static_cast<int32_t>(turn.caller),
          .steps = call_.lengths == nullptr ? 0 : static_cast<int32_t>(turn.steps),
          .place = static_cast<int32_t>(turn.place),
          .ahead = turn.ahead ? 1 : 0};
}

CudaStateHide Launcher::hide_at(const StateLaunch& launch) const {
  if (launch.entries == CudaEntries::All) return {};
  const StatePlan& state = *launch.state;
  // What hides entries of an ascending plan goes to where they are; all else has slots that turned.
  const bool in_place = !plan_.descending && launch.entries == CudaEntries::Hidden;
  const bool turns = state.turns && !in_place && call_.lengths != nullptr;
  return {.resets = call_.reset,
          .lengths = call_.lengths,
          .first = call_.first_step,
          .call_steps = call_.steps,
          .steps = static_cast<int32_t>(steps_of(plan_, state)),
          .place = static_cast<int32_t>(launch.place),
          .length = static_cast<int32_t>(plan_.kernels[launch.launch->kernel].length),
          .turns = !turns             ? 0
                   : plan_.descending ? 1
                                      : -1,
          .reversed = state.hiding == Hiding::ReversedResets ? 1 : 0,
          .entries = launch.entries,
          .newest_first = plan_.descending ? 0 : 1,
          .behind = static_cast<int32_t>(steps_behind(plan_, state))};
}

int64_t Launcher::exchange_bytes(size_t stage, int64_t steps) const {
  int64_t bytes = 0;
  for (const Launch& launch : plan_.stages[stage].launches) {
    const BufferId id = exchange_of(launch);
    if (id == kNoBuffer) continue;
    const Buffer& exchange = plan_.buffers[id];
    bytes += steps * plan_.batch * exchange.width * static_cast<int64_t>(size_of(exchange.dtype));
  }
  return bytes;
}

Status Launcher::clear_exchange(const Launch& launch, int64_t steps, LaunchPosition position,
                                cudaStream_t stream) const {
  const BufferId id = exchange_of(launch);
  if (id == kNoBuffer) return {};
  const Buffer& exchange = plan_.buffers[id];
  const auto step_bytes =
      static_cast<size_t>(plan_.batch * exchange.width) * size_of(exchange.dtype);
  char* const first = addresses_.pointer({.buffer = id}, first_of(position, steps));
  return check_cuda(cudaMemsetAsync(first, 0xFF, static_cast<size_t>(steps) * step_bytes, stream),
                    "clearing what blocks exchange");
}

Status Launcher::clear_totals(uint32_t sweep, LaunchQueue& queue) const {
  for (const BufferId id : cleared_[sweep]) {
    const auto bytes = static_cast<size_t>(byte_size(plan_, plan_.buffers[id]));
    const Status cleared =
        check_cuda(cudaMemsetAsync(addresses_.pointer({.buffer = id}, {}), 0, bytes, queue.stream),
                   "clearing totals");
    if (!cleared) return cleared;
  }
  return {};
}

Status Launcher::sequence(LaunchId id, int64_t steps, LaunchPosition position, LaunchQueue& queue) {
  return run({.id = id,
              .steps = steps,
              .rows = steps * plan_.batch,
              .position = position,
              .first = first_of(position, steps)},
             queue);
}

Status Launcher::step(std::span<const StepLaunch> launches, LaunchQueue& queue) {
  const auto& [id, position] = launches[0];
  if (module().fused(id) != nullptr) return fused(launches, queue);
  return run({.id = id, .steps = 1, .rows = plan_.batch, .position = position, .first = position},
             queue);
}

// ---- Generated kernels ----

CudaRows Launcher::rows_at(CudaRows rows, LaunchPosition position) const {
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

Status Launcher::run(const ElementwiseLaunch& /*launch*/, const Run& at, LaunchQueue& queue) {
  const auto& kernel = shape_of<CudaKernelShape>(at.id);
  CudaGrid grid = cuda_grid(kernel, at.rows);
  grid.rows = rows_at(grid.rows, at.first);
  parameters_[1] = &grid.rows;
  set_accesses(module().of(at.id).accesses, at.first);
  const LaunchShape shape{dim3(grid.x, grid.y), dim3(static_cast<unsigned>(kernel.threads))};
  return start(kernel_of(at.id), shape, &parameters_[1], queue, "launching");
}

Status Launcher::run(const GemmLaunch& /*launch*/, const Run& at, LaunchQueue& queue) {
  queue.after_kernel = false;
  return products_.run(at.id, at.rows, addresses_, at.first, queue.library_workspace, queue.stream);
}

Status Launcher::run(const LoopLaunch& /*launch*/, const Run& at, LaunchQueue& queue) {
  const CudaKernelShape& kernel = shape_of<CudaLoopShape>(at.id).shape;
  CudaGrid grid = cuda_grid(kernel, plan_.batch);
  grid.rows = rows_at(grid.rows, at.position);
  auto count = static_cast<int32_t>(at.steps);
  parameters_[0] = &grid.rows;
  parameters_[1] = &count;
  set_accesses(module().of(at.id).accesses, at.position);
  const LaunchShape shape{dim3(grid.x, grid.y), dim3(static_cast<unsigned>(kernel.threads))};
  return start(kernel_of(at.id), shape, parameters_.data(), queue, "launching");
}

Status Launcher::run(const RecurrenceLaunch& launch, const Run& at, LaunchQueue& queue) {
  Writer writer(instances_.data());
  writer.append(rows_at({.count = static_cast<uint32_t>(plan_.batch)}, at.position));
  writer.append(static_cast<int32_t>(at.steps));
  const int64_t step = step_at(plan_, addresses_.steps(), at.position);
  writer.append(static_cast<int32_t>(plan_.descending ? step : -step));
  for (const Access& access : module().of(at.id).accesses) {
    // What blocks exchange lies in the order in which steps run.
    const bool is_exchange = access.buffer == launch.exchange;
    writer.append(addresses_.at(access, is_exchange ? at.first : at.position));
  }
  void* parameters[] = {instances_.data()};
  return start(kernel_of(at.id), launch_shape(shape_of<CudaRecurrenceShape>(at.id)), parameters,
               queue, "running a recurrence");
}

Status Launcher::fused(std::span<const StepLaunch> launches, LaunchQueue& queue) {
  const LaunchId first = launches[0].launch;
  Writer writer(instances_.data());
  for (const auto& [id, position] : launches) {
    writer.append(rows_at({.count = static_cast<uint32_t>(plan_.batch)}, position));
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
  if (const std::span<std::byte> zeros = addresses_.places().zeros(); !zeros.empty()) {
    const Status cleared = check_cuda(cudaMemsetAsync(zeros.data(), 0, zeros.size(), queue.stream),
                                      "clearing initial states");
    if (!cleared) return cleared;
  }
  CudaRows no_rows;
  int32_t no_steps = 0;
  std::ranges::fill(parameters_, &no_steps);
  for (size_t i = 0; i < accesses_.size(); ++i) parameters_[2 + i] = &accesses_[i];
  std::ranges::fill(instances_, std::byte{});
  void* no_instances[] = {instances_.data()};
  /// Behind the rows: of no kernel, since of any no access would be an address.
  constexpr uint32_t kNoState[] = {kNoCudaKernel, 1};
  for (uint32_t i = 0; i < module().kernels.size(); ++i) {
    LaunchShape once{dim3(1), dim3()};
    void** parameters = no_instances;
    const auto* loop = std::get_if<CudaLoopShape>(&module().kernels[i].shape);
    const auto* scan = std::get_if<CudaScanShape>(&module().kernels[i].shape);
    if (loop != nullptr || scan != nullptr) {
      once.threads =
          dim3(loop == nullptr ? scan->threads : static_cast<unsigned>(loop->shape.threads));
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
      std::memcpy(instances_.data() + sizeof(CudaRows), kNoState, sizeof(kNoState));
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
      if (!shape->cooperative) {
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
  const Places places(plan, kBufferAlignment);
  size_t words = kCudaFirstSlot;
  for (size_t place = 0; place < places.count(); ++place) {
    if (places.buffer_of(place).placement != Placement::Program) ++words;
  }
  return words;
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

}  // namespace rnnc::cuda
