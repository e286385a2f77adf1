// Preparing:
// 1. Allocate the program memory and the parameter block: what lacks most often is memory.
// 2. Compile and load the kernels. If one of a recurrence is refused, all else is left out.
// 3. Choose the products' algorithms, allocate their workspace, and run products and kernels once,
//    so that launches load nothing.
// 4. Find the rounds of a wave, and capture the Step stages of each over a chunk as one graph.
//
// A forward call goes through the waves (ir/plan/plan.h), and through each by rounds (rounds.h); the
// Once and Last stages before and after all of them are launched one after the other.
// The Sequence stages of a round are launched directly for the lags that have a chunk in this wave,
// on the call's stream or on several that part from it and join it again. Its Step stages are a
// replay of the graph, for waves at either end of the sequence too: what the graph reads and writes
// outside program memory it finds through the parameter block, which a kernel at the start of each
// sweep fills in the stream's order, and whose step moves on at the end of each wave: that is the
// last launch of the last round's graph, but for the waves in which states end, whose final values
// are written before their histories move. By that step its kernels do nothing for a lag that has
// no chunk, or behind the sequence's end; products of the library then compute what nobody reads.
// Where few steps are left, and on a stream that is captured, Step stages are launched directly, too.
#include <algorithm>
#include <optional>

#include "ir/plan/alignment.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/cuda/cuda_wave.h"
#include "runtime/cuda/exchange_clearing.h"
#include "runtime/cuda/graph.h"
#include "runtime/cuda/launch_events.h"
#include "runtime/cuda/launcher.h"
#include "runtime/cuda/loaded_kernels.h"
#include "runtime/cuda/plan_products.h"
#include "runtime/cuda/state_launches.h"

namespace rnnc::cuda {
namespace {

/// Whether kernels in graphs begin while those before them end, and since which architecture (its
/// major version) they can.
constexpr bool kOverlapLaunches = true;
constexpr int kOverlapArchitecture = 9;

class CudaExecutable : public Executable {
 public:
  static Result<std::unique_ptr<Executable>> prepare(Plan plan, CudaContext& context);
  ~CudaExecutable() override;
  Status run(const Call& call, bool run_once) override;
  std::string refusal() const override { return refusal_; }
  std::string doubt() const override { return kernels_->doubt(); }

 private:
  struct Sweep {
    std::vector<Round> rounds;
    std::vector<StepGraph> graphs;  // of the Step stages of each round; some may be empty
    bool graph_ends_wave = false;   // the last of them, but where states may end
  };

  CudaExecutable(Plan plan, const CudaContext& context)
      : plan_(std::move(plan)), device_(context.device), allocator_(context.allocator) {}

  Status check_sizes() const;
  Status allocate();
  Status load_kernels(const CudaContext& context);
  Status prepare_products(CudaContext& context);
  void find_sweeps();
  Status warm_up_and_capture(const CudaContext& context);
  Status clear_pads(cudaStream_t stream);
  Status warm_up(cudaStream_t stream);
  Status make_sides();
  Status capture_sweep(uint32_t index, std::span<const OwnStream> streams);
  Result<StepGraph> capture(const Round& round, std::span<const OwnStream> streams,
                            std::optional<uint32_t> ended_sweep);
  bool can_replay(const Round& round) const;
  size_t most_streams() const;

  Status run_launches(const Call& call, bool run_once, bool replay, LaunchQueue& queue);
  Status run_stages(Domain domain, LaunchQueue& queue);
  Status run_sweep(uint32_t index, const Call& call, bool replay, LaunchQueue& queue);
  Status run_wave(const Sweep& sweep, const CudaWave& wave, bool replay, LaunchQueue& queue);
  Status run_sequences(const Round& round, const CudaWave& wave, LaunchQueue& queue);
  Status clear_ahead(const Call& call, LaunchQueue& queue);
  Status run_on_stream(const Round& round, uint32_t number, const CudaWave& wave,
                       LaunchQueue& queue);
  Status end_wave(uint32_t index, const CudaWave& wave, bool replay, LaunchQueue& queue);
  bool replays(const Sweep& sweep, size_t round, const CudaWave& wave) const;
  Status run_branch(const Branch& branch, const CudaWave& wave, LaunchQueue& queue);
  Status run_together(LaunchQueue& queue);
  bool is_worth_replaying(int64_t steps) const;
  Status begin_states(uint32_t sweep, const CudaWave& wave, const Call& call, LaunchQueue& queue);
  Status end_states(uint32_t sweep, const CudaWave& wave, const Call& call, LaunchQueue& queue);

  const Plan plan_;
  const CudaDevice device_;
  const DeviceAllocator allocator_;
  DeviceMemory memory_;  // program memory, then the parameter block
  int64_t* parameter_block_ = nullptr;
  std::optional<LoadedKernels> kernels_;
  std::string refusal_;
  std::optional<PlanProducts> products_;
  DeviceMemory library_workspace_;  // for each stream of a graph
  size_t stream_workspace_bytes_ = 0;
  std::optional<Launcher> launcher_;
  std::vector<Sweep> sweeps_;
  struct SideStream {
    OwnStream stream;
    Fence fence;
  };
  std::vector<SideStream> side_streams_;  // of rounds that have several, but for the call's stream
  std::optional<ExchangeClearing> clearing_;
  // That are being launched: forward allocates nothing.
  std::vector<StepLaunch> together_;
  std::vector<StateLaunch> states_;
  std::optional<StateLaunches> state_launches_;
  LaunchEvents* events_ = nullptr;  // of a call whose launches are timed
};

// ---- Preparing ----

Result<std::unique_ptr<Executable>> CudaExecutable::prepare(Plan plan, CudaContext& context) {
  std::unique_ptr<CudaExecutable> executable(new CudaExecutable(std::move(plan), context));
  CudaExecutable& self = *executable;
  const Status ready = self.check_sizes()
                           .and_then([&] { return self.allocate(); })
                           .and_then([&] { return self.load_kernels(context); })
                           .and_then([&]() -> Status {
                             if (!self.refusal_.empty()) return {};
                             return self.prepare_products(context).and_then(
                                 [&] { return self.warm_up_and_capture(context); });
                           });
  if (!ready) return tl::unexpected(ready.error());
  return executable;
}

CudaExecutable::~CudaExecutable() {
  const DeviceScope scope(device_.index);
  const CaptureNeutralScope neutral;
  // Freeing memory waits for the device, so that nothing that still runs loses its code.
  memory_.reset();
  library_workspace_.reset();
  side_streams_.clear();
  clearing_.reset();
  sweeps_.clear();
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
  const size_t program = aligned_size(Places(plan_, kBufferAlignment).program_bytes());
  const size_t block = parameter_words(plan_) * sizeof(int64_t);
  Result<DeviceMemory> memory = DeviceMemory::allocate(device_, allocator_, program + block);
  if (!memory) return tl::unexpected(memory.error());
  memory_ = std::move(*memory);
  parameter_block_ = reinterpret_cast<int64_t*>(memory_.data() + program);
  return {};
}

Status CudaExecutable::load_kernels(const CudaContext& context) {
  Result<LoadedKernels> kernels = LoadedKernels::load(plan_, context);
  if (!kernels) return tl::unexpected(kernels.error());
  kernels_.emplace(std::move(*kernels));
  refusal_ = kernels_->refusal();
  return {};
}

Status CudaExecutable::prepare_products(CudaContext& context) {
  Result<PlanProducts> products = PlanProducts::prepare(plan_, kernels_->module(), context);
  if (!products) return tl::unexpected(products.error());
  products_.emplace(std::move(*products));
  launcher_.emplace(plan_, *kernels_, *products_, memory_.data(), parameter_block_);
  find_sweeps();
  stream_workspace_bytes_ =
      aligned_size(std::max(products_->workspace_bytes(), launcher_->workspace_bytes()));
  Result<DeviceMemory> workspace =
      DeviceMemory::allocate(device_, allocator_, most_streams() * stream_workspace_bytes_);
  if (!workspace) return tl::unexpected(workspace.error());
  library_workspace_ = std::move(*workspace);
  return {};
}

void CudaExecutable::find_sweeps() {
  sweeps_.resize(plan_.sweeps);
  size_t most_chains = 0;
  for (uint32_t i = 0; i < plan_.sweeps; ++i) {
    sweeps_[i].rounds = find_rounds(plan_, kernels_->module(), i);
    sweeps_[i].graphs.resize(sweeps_[i].rounds.size());
    for (const Round& round : sweeps_[i].rounds) {
      for (const Branch& branch : round.branches) {
        most_chains = std::max(most_chains, branch.chains.size());
      }
    }
  }
  together_.reserve(most_chains);
  state_launches_.emplace(plan_);
  states_.reserve(state_launches_->most());
}

/// Streams that a round's launches are on at once.
size_t CudaExecutable::most_streams() const {
  size_t most = 1;
  for (const Sweep& sweep : sweeps_) {
    for (const Round& round : sweep.rounds) {
      most = std::max<size_t>({most, round.branches.size(), round.streams});
    }
  }
  return std::min(most, kMostStreams);
}

Status CudaExecutable::make_sides() {
  size_t most = 1;
  for (const Sweep& sweep : sweeps_) {
    for (const Round& round : sweep.rounds) most = std::max<size_t>({most, round.streams});
  }
  while (side_streams_.size() + 1 < most) {
    Result<OwnStream> stream = OwnStream::create();
    if (!stream) return tl::unexpected(stream.error());
    Result<Fence> fence = Fence::create();
    if (!fence) return tl::unexpected(fence.error());
    side_streams_.push_back({std::move(*stream), std::move(*fence)});
  }
  clearing_.emplace(plan_, *launcher_);
  const bool beside = std::ranges::any_of(sweeps_, [](const Sweep& sweep) {
    return std::ranges::any_of(sweep.rounds, &Round::clears_beside);
  });
  return beside ? clearing_->prepare() : Status();
}

Status CudaExecutable::warm_up_and_capture(const CudaContext& context) {
  if (Status status = make_sides(); !status) return status;
  std::vector<OwnStream> streams;
  for (size_t i = 0; i < most_streams(); ++i) {
    Result<OwnStream> stream = OwnStream::create();
    if (!stream) return tl::unexpected(stream.error());
    streams.push_back(std::move(*stream));
  }
  if (Status status = warm_up(streams[0].get()); !status) return status;
  if (!refusal_.empty() || !context.graphs) return {};
  for (uint32_t index = 0; index < sweeps_.size(); ++index) {
    if (Status status = capture_sweep(index, streams); !status) return status;
  }
  return {};
}

/// They stay zero: nothing writes them, and nothing shares their memory.
Status CudaExecutable::clear_pads(cudaStream_t stream) {
  for (const Buffer& buffer : plan_.buffers) {
    if (!ends_in_zeros(buffer)) continue;
    const auto bytes = static_cast<size_t>(byte_size(plan_, buffer));
    const Status cleared = check_cuda(
        cudaMemsetAsync(memory_.data() + buffer.offset, 0, bytes, stream), "clearing pads");
    if (!cleared) return cleared;
  }
  return {};
}

Status CudaExecutable::warm_up(cudaStream_t stream) {
  LaunchQueue queue = {.stream = stream, .library_workspace = library_workspace_.data()};
  return clear_pads(stream)
      .and_then(
          [&] { return products_->warm_up(device_, allocator_, queue.library_workspace, stream); })
      .and_then([&] { return launcher_->warm_up(queue); })
      .and_then([&]() -> Status {
        Result<std::string> refusal = launcher_->warm_up_recurrences(queue);
        if (!refusal) return tl::unexpected(refusal.error());
        refusal_ = *std::move(refusal);
        return {};
      })
      .and_then([&] { return check_cuda(cudaStreamSynchronize(stream), "launching"); });
}

Status CudaExecutable::capture_sweep(uint32_t index, std::span<const OwnStream> streams) {
  Sweep& sweep = sweeps_[index];
  if (step_launches(plan_, sweep.rounds) <= kLaunchesOfReplay) return {};
  for (size_t i = 0; i < sweep.rounds.size(); ++i) {
    const Round& round = sweep.rounds[i];
    if (round.branches.empty() || !can_replay(round)) continue;
    // Several branches would have to be joined first.
    sweep.graph_ends_wave = i + 1 == sweep.rounds.size() && round.branches.size() == 1;
    Result<StepGraph> graph = capture(
        round, streams, sweep.graph_ends_wave ? std::optional<uint32_t>(index) : std::nullopt);
    if (!graph) return tl::unexpected(graph.error());
    sweep.graphs[i] = std::move(*graph);
  }
  return {};
}

/// Products of the library have no addresses in a graph but those of program memory, and are not
/// kept from computing when there is nothing to compute, which must not reach a final state.
bool CudaExecutable::can_replay(const Round& round) const {
  const auto is_fixed = [this](const Access& access) {
    return plan_.buffers[access.buffer].placement == Placement::Program;
  };
  const auto is_state = [this](BufferId buffer) {
    return plan_.buffers[buffer].extent == Extent::Batch &&
           std::ranges::any_of(plan_.states, [buffer](const StatePlan& state) {
             const std::vector<Access>& accesses = state.write_final.accesses;
             return std::ranges::find(accesses, buffer, &Access::buffer) != accesses.end();
           });
  };
  const auto fits = [&](size_t stage) {
    const std::vector<Launch>& launches = plan_.stages[stage].launches;
    for (size_t i = 0; i < launches.size(); ++i) {
      const auto* gemm = std::get_if<GemmLaunch>(&launches[i]);
      if (gemm == nullptr || kernels_->module().fused({stage, i}) != nullptr) continue;
      const bool fixed = is_fixed(gemm->left) && is_fixed(gemm->weight) && is_fixed(gemm->out);
      if (!fixed || is_state(gemm->out.buffer)) return false;
    }
    return true;
  };
  return std::ranges::all_of(round.branches, [&](const Branch& branch) {
    return std::ranges::all_of(
        branch.chains, [&](const Chain& chain) { return std::ranges::all_of(chain.stages, fits); });
  });
}

Result<StepGraph> CudaExecutable::capture(const Round& round, std::span<const OwnStream> streams,
                                          std::optional<uint32_t> ended_sweep) {
  const CudaWave any_wave{{.chunk = plan_.chunk, .steps = plan_.chunk}, true};
  const size_t used = std::min(streams.size(), round.branches.size());
  return StepGraph::capture(streams.first(used), [&]() -> Status {
    std::vector<LaunchQueue> queues;
    for (size_t i = 0; i < used; ++i) {
      queues.push_back(
          {.stream = streams[i].get(),
           .library_workspace = library_workspace_.data() + i * stream_workspace_bytes_,
           .overlap = kOverlapLaunches && device_.major >= kOverlapArchitecture});
    }
    size_t turn = 0;
    for (const Branch& branch : round.branches) {
      if (Status status = run_branch(branch, any_wave, queues[turn]); !status) return status;
      if (++turn == used) turn = 0;
    }
    return ended_sweep ? launcher_->end_wave(*ended_sweep, true, true, queues[0]) : Status();
  });
}

// ---- Running ----

Status CudaExecutable::run(const Call& call, bool run_once) {
  const DeviceScope scope(device_.index);
  if (!scope.status()) return scope.status();
  LaunchQueue queue{.stream = static_cast<cudaStream_t>(call.stream),
                    .library_workspace = library_workspace_.data()};
  const Result<bool> capturing = is_capturing(queue.stream);
  if (!capturing) return tl::unexpected(capturing.error());
  launcher_->bind(call);
  if (call.times == nullptr) return run_launches(call, run_once, !*capturing, queue);
  if (*capturing) return fail("launches are not timed while a CUDA graph is being captured");
  LaunchEvents events;
  events_ = &events;
  const Status status =
      events.begin_call(queue.stream)
          .and_then([&] { return run_launches(call, run_once, /*replay=*/false, queue); })
          .and_then([&] { return events.end_call(queue.stream, *call.times); });
  events_ = nullptr;
  return status;
}

Status CudaExecutable::run_launches(const Call& call, bool run_once, bool replay,
                                    LaunchQueue& queue) {
  if (Status status = clear_ahead(call, queue); !status) return status;
  if (run_once) {
    if (Status status = run_stages(Domain::Once, queue); !status) return status;
  }
  for (uint32_t sweep = 0; sweep < plan_.sweeps; ++sweep) {
    if (Status status = run_sweep(sweep, call, replay, queue); !status) return status;
  }
  return call.piece.ends ? run_stages(Domain::Last, queue) : Status();
}

/// Of domain Once or Last.
Status CudaExecutable::run_stages(Domain domain, LaunchQueue& queue) {
  for (size_t stage = 0; stage < plan_.stages.size(); ++stage) {
    if (plan_.stages[stage].domain != domain) continue;
    const auto run = [&] { return launcher_->once(stage, queue); };
    const bool timed = events_ != nullptr && domain == Domain::Last;
    const LaunchSpan span{.stage = stage, .launch = kWholeStage};
    Status status = timed ? events_->time({span}, queue.stream, run) : run();
    if (!status) return status;
  }
  return {};
}

Status CudaExecutable::run_sweep(uint32_t index, const Call& call, bool replay,
                                 LaunchQueue& queue) {
  const Sweep& sweep = sweeps_[index];
  if (call.piece.begins) {
    if (Status status = launcher_->clear_totals(index, queue); !status) return status;
  }
  const bool has_graphs = std::ranges::any_of(sweep.graphs, &StepGraph::exists);
  replay = replay && has_graphs && is_worth_replaying(call.steps);
  if (replay) {
    if (Status status = launcher_->fill_parameter_block(queue); !status) return status;
  }
  const Waves waves(plan_, index, call.steps);
  for (const Wave& at : waves) {
    const CudaWave wave{at};
    const Status status = begin_states(index, wave, call, queue)
                              .and_then([&] { return run_wave(sweep, wave, replay, queue); })
                              .and_then([&] { return end_states(index, wave, call, queue); })
                              .and_then([&]() -> Status {
                                if (waves.is_last(wave)) return {};
                                return end_wave(index, wave, replay, queue);
                              });
    if (!status) return status;
  }
  return {};
}

Status CudaExecutable::run_wave(const Sweep& sweep, const CudaWave& wave, bool replay,
                                LaunchQueue& queue) {
  for (size_t i = 0; i < sweep.rounds.size(); ++i) {
    const Round& round = sweep.rounds[i];
    if (Status status = run_sequences(round, wave, queue); !status) return status;
    if (replay && replays(sweep, i, wave)) {
      if (Status status = sweep.graphs[i].replay(queue.stream); !status) return status;
      continue;
    }
    for (const Branch& branch : round.branches) {
      if (Status status = run_branch(branch, wave, queue); !status) return status;
    }
  }
  return {};
}

/// Those of the last lag first: what it waits for is long done.
Status CudaExecutable::run_sequences(const Round& round, const CudaWave& wave, LaunchQueue& queue) {
  const auto is_used = [&](uint32_t number) {
    return std::ranges::any_of(round.sequences, [&](size_t index) {
      const uint32_t lag = plan_.stages[index].lag;
      return lag % round.streams == number && wave.count(lag) > 0;
    });
  };
  for (uint32_t number = round.streams - 1; number > 0; --number) {
    if (!is_used(number)) continue;
    const auto& [stream, fence] = side_streams_[number - 1];
    LaunchQueue own{
        .stream = stream.get(),
        .library_workspace = library_workspace_.data() + number * stream_workspace_bytes_};
    const Status status = fence.order(queue.stream, own.stream).and_then([&] {
      return run_on_stream(round, number, wave, own);
    });
    if (!status) return status;
  }
  if (Status status = clearing_->beside(round.cleared_early, wave, queue.stream); !status) {
    return status;
  }
  if (Status status = run_on_stream(round, 0, wave, queue); !status) return status;
  for (uint32_t number = 1; number < round.streams; ++number) {
    if (!is_used(number)) continue;
    const auto& [stream, fence] = side_streams_[number - 1];
    if (Status status = fence.order(stream.get(), queue.stream); !status) return status;
  }
  return {};
}

/// What is exchanged in the first chunk, when a call begins.
Status CudaExecutable::clear_ahead(const Call& call, LaunchQueue& queue) {
  clearing_->begin_call();
  for (uint32_t sweep = 0; sweep < plan_.sweeps; ++sweep) {
    const CudaWave first{*Waves(plan_, sweep, call.steps).begin()};
    for (const Round& round : sweeps_[sweep].rounds) {
      const Status status = clearing_->beside(round.cleared_ahead, first, queue.stream);
      if (!status) return status;
    }
  }
  return {};
}

Status CudaExecutable::run_on_stream(const Round& round, uint32_t number, const CudaWave& wave,
                                     LaunchQueue& queue) {
  for (const size_t index : round.sequences) {
    const Stage& stage = plan_.stages[index];
    const int64_t steps = wave.count(stage.lag);
    if (steps == 0 || stage.lag % round.streams != number) continue;
    if (Status status = clearing_->finish(index, wave, queue.stream); !status) return status;
    for (size_t i = 0; i < stage.launches.size(); ++i) {
      const LaunchPosition start = wave.position(stage.lag);
      const auto run = [&] { return launcher_->sequence({index, i}, steps, start, queue); };
      const LaunchSpan span{
          .stage = index, .launch = i, .first_step = start.order(), .steps = steps};
      Status status = events_ != nullptr ? events_->time({span}, queue.stream, run) : run();
      if (!status) return status;
    }
    if (std::ranges::binary_search(round.cleared_ahead, index)) {
      CudaWave next = wave;
      ++next.index;
      const Status status = clearing_->beside({&index, 1}, next, queue.stream);
      if (!status) return status;
    }
  }
  return {};
}

/// Unless the last graph has done that.
Status CudaExecutable::end_wave(uint32_t index, const CudaWave& wave, bool replay,
                                LaunchQueue& queue) {
  const Sweep& sweep = sweeps_[index];
  const bool is_done = replay && sweep.graph_ends_wave && !wave.may_end() &&
                       replays(sweep, sweep.rounds.size() - 1, wave);
  return is_done ? Status() : launcher_->end_wave(index, replay, false, queue);
}

bool CudaExecutable::replays(const Sweep& sweep, size_t round, const CudaWave& wave) const {
  return sweep.graphs[round].exists() && is_worth_replaying(most_steps(sweep.rounds[round], wave));
}

/// Of a chunk, whose other steps a replay skips.
bool CudaExecutable::is_worth_replaying(int64_t steps) const {
  return 2 * steps >= plan_.chunk;
}

/// Step by step, each launch for all chains that have such a step.
Status CudaExecutable::run_branch(const Branch& branch, const CudaWave& wave, LaunchQueue& queue) {
  const std::vector<size_t>& stages = branch.chains[0].stages;
  const int64_t steps = most_steps(branch, wave);
  for (size_t i = 0; i < stages.size(); ++i) {
    for (int64_t step = 0; step < steps; ++step) {
      for (size_t j = 0; j < plan_.stages[stages[i]].launches.size(); ++j) {
        together_.clear();
        for (const Chain& chain : branch.chains) {
          if (step >= wave.count(chain.lag)) continue;
          together_.push_back({{chain.stages[i], j}, wave.position(chain.lag, step)});
        }
        if (Status status = run_together(queue); !status) return status;
      }
    }
  }
  return {};
}

/// The launches of `together_`.
Status CudaExecutable::run_together(LaunchQueue& queue) {
  const auto run = [&] { return launcher_->step(together_, queue); };
  if (events_ == nullptr) return run();
  std::vector<LaunchSpan> spans;
  for (const StepLaunch& step : together_) {
    spans.push_back({.stage = step.launch.stage,
                     .launch = step.launch.index,
                     .first_step = step.position.order(),
                     .steps = 1});
  }
  return events_->time(spans, queue.stream, run);
}

Status CudaExecutable::begin_states(uint32_t sweep, const CudaWave& wave, const Call& call,
                                    LaunchQueue& queue) {
  states_.clear();
  for (uint32_t i = 0; i < plan_.states.size(); ++i) {
    const StatePlan& state = plan_.states[i];
    if (state.sweep != sweep || !wave.begins(state.lag)) continue;
    if (!launcher_->places().copies_initial(i)) continue;
    const bool given = launcher_->places().initial_value(i, call) != nullptr;
    state_launches_->append_begin(i, given, call.reset != nullptr, wave.position(state.lag),
                                  states_);
  }
  return launcher_->states(states_, queue);
}

Status CudaExecutable::end_states(uint32_t sweep, const CudaWave& wave, const Call& call,
                                  LaunchQueue& queue) {
  states_.clear();
  for (uint32_t i = 0; i < plan_.states.size(); ++i) {
    const StatePlan& state = plan_.states[i];
    if (state.sweep != sweep || !wave.ends(state.lag)) continue;
    if (!launcher_->places().copies_final(i)) continue;
    const LaunchPosition end = wave.position(state.lag, wave.count(state.lag));
    state_launches_->append_end(i, call.reset != nullptr, end, states_);
  }
  return launcher_->states(states_, queue);
}

}  // namespace

Result<std::unique_ptr<Executable>> prepare_cuda_executable(Plan plan, CudaContext& context) {
  return CudaExecutable::prepare(std::move(plan), context);
}

}  // namespace rnnc::cuda
