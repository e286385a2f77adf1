#include "runtime/cpu/cpu_executable.h"

#include <algorithm>
#include <cstring>

#include "ir/plan/launches/launches.h"
#include "ir/plan/state_steps.h"
#include "runtime/cpu/flushed_subnormals.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/loop_stage.h"
#include "runtime/cpu/plain_launches.h"
#include "runtime/cpu/scan_stage.h"
#include "runtime/cpu/share_out.h"
#include "runtime/cpu/step_stage.h"
#include "runtime/cpu/turned_history.h"

namespace rnnc::cpu {
namespace {

bool is_loop(const Stage& stage) {
  return stage.launches.size() == 1 && std::holds_alternative<LoopLaunch>(stage.launches[0]);
}

}  // namespace

CpuExecutable::CpuExecutable(Plan plan, std::unique_ptr<CpuModule> module)
    : plan_(std::move(plan)), module_(std::move(module)), addresses_(plan_) {}

Result<std::unique_ptr<CpuExecutable>> CpuExecutable::create(Plan plan,
                                                             std::unique_ptr<CpuModule> module,
                                                             ThreadPools& pools) {
  std::unique_ptr<CpuExecutable> executable(new CpuExecutable(std::move(plan), std::move(module)));
  if (Status status = executable->prepare(pools); !status) return tl::unexpected(status.error());
  return executable;
}

// --- Preparation -------------------------------------------------------------------------------

Status CpuExecutable::prepare(ThreadPools& pools) {
  prepare_stages(pools.most_threads());
  prepare_states();
  estimate_tracks(pools.most_threads());
  for (uint32_t i = 0; i < plan_.sweeps; ++i) cleared_.push_back(cleared_buffers(plan_, i));
  const int threads = useful_threads(pools.most_threads());
  if (threads > 1) pool_ = &pools.of(threads);
  size_t most_accesses = 0;
  for (const PreparedLaunch* launch : prepared_launches()) {
    most_accesses = std::max({most_accesses, launch->accesses.size(), launch->weights.size()});
  }
  pointers_.assign(threads, std::vector<void*>(most_accesses));
  return allocate(threads);
}

void CpuExecutable::prepare_stages(int most_threads) {
  stages_.resize(plan_.stages.size());
  const int64_t lanes = module_->gemm().lanes;
  for (size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = plan_.stages[i];
    if (const CpuSteps loop = module_->loops()[i]) {
      stages_[i].launches.emplace_back();
      stages_[i].totals.emplace_back();
      if (const auto& rounds = module_->rounds()[i]; !rounds.empty()) {
        stages_[i].steps =
            std::make_unique<ScanStage>(plan_, stage, loop, rounds, lanes, most_threads);
      } else {
        stages_[i].steps = std::make_unique<LoopStage>(plan_, stage, loop, lanes, most_threads);
      }
      continue;
    }
    for (const Launch& launch : stage.launches) {
      const int64_t rows = rows_of(stage, launch, plan_.chunk);
      stages_[i].launches.push_back(prepare_launch(launch, rows, most_threads));
      const auto* total = std::get_if<TotalLaunch>(&launch);
      stages_[i].totals.push_back(
          total == nullptr ? nullptr : std::make_unique<TotalWork>(plan_, module_->gemm(), *total));
    }
    if (stage.domain == Domain::Step || is_loop(stage)) {
      stages_[i].steps =
          std::make_unique<StepStage>(plan_, stage, stages_[i].launches, lanes, most_threads);
    }
  }
}

void CpuExecutable::prepare_states() {
  for (const StatePlan& state : plan_.states) {
    const auto prepare = [&](const ElementwiseLaunch& launch) {
      Launches prepared;
      for (const ElementwiseLaunch& one : launches_of(plan_, state, launch)) {
        prepared.push_back(prepare_elementwise(plan_, *module_, one.kernel, one.accesses));
      }
      return prepared;
    };
    states_.push_back({prepare(state.init_given), prepare(state.init_declared),
                       prepare(state.write_final), prepare(state.hide)});
  }
}

std::unique_ptr<PreparedLaunch> CpuExecutable::prepare_launch(const Launch& launch, int64_t rows,
                                                              int most_threads) const {
  if (const auto* elementwise = std::get_if<ElementwiseLaunch>(&launch)) {
    return prepare_elementwise(plan_, *module_, elementwise->kernel, elementwise->accesses);
  }
  if (const auto* loop = std::get_if<LoopLaunch>(&launch)) {
    return prepare_elementwise(plan_, *module_, loop->kernel, loop->accesses);
  }
  if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) {
    return prepare_product(plan_, *module_, *gemm, rows);
  }
  if (const auto* fused = std::get_if<FusedLaunch>(&launch)) {
    return prepare_fused(plan_, *module_, *fused, most_threads);
  }
  return nullptr;
}

std::vector<PreparedLaunch*> CpuExecutable::prepared_launches() const {
  std::vector<PreparedLaunch*> launches;
  const auto add = [&](const std::unique_ptr<PreparedLaunch>& launch) {
    if (launch != nullptr) launches.push_back(launch.get());
  };
  for (const PreparedStage& stage : stages_) std::ranges::for_each(stage.launches, add);
  for (const PreparedState& state : states_) {
    for (const auto* steps :
         {&state.init_given, &state.init_declared, &state.write_final, &state.hide}) {
      std::ranges::for_each(*steps, add);
    }
  }
  return launches;
}

Status CpuExecutable::allocate(int threads) {
  int64_t packed_bytes = 0;
  for (PreparedLaunch* launch : prepared_launches()) {
    scratch_.bytes_per_thread = std::max(scratch_.bytes_per_thread, launch->scratch_bytes);
    packed_bytes += launch->packed_bytes;
  }
  std::vector<TotalWork*> totals;
  constexpr int64_t kLine = 64;
  for (const PreparedStage& stage : stages_) {
    if (stage.steps != nullptr) {
      packed_bytes += ceil_div(stage.steps->memory_bytes(), kLine) * kLine;
    }
    for (const auto& total : stage.totals) {
      if (total != nullptr) totals.push_back(total.get());
    }
  }
  for (const TotalWork* total : totals) {
    scratch_.bytes_per_thread = std::max(scratch_.bytes_per_thread, total->scratch_bytes());
    packed_bytes += ceil_div(total->packed_bytes(), kLine) * kLine;
  }
  scratch_.bytes_per_thread = ceil_div(scratch_.bytes_per_thread, 256) * 256;
  auto program = AlignedMemory::allocate(addresses_.places().program_bytes());
  auto packed = AlignedMemory::allocate(packed_bytes);
  auto scratch = AlignedMemory::allocate(scratch_.bytes_per_thread * threads);
  for (const auto* memory : {&program, &packed, &scratch}) {
    if (!*memory) return tl::unexpected(memory->error());
  }
  program_memory_ = std::move(*program);
  addresses_.use_program_memory(program_memory_.data());
  std::ranges::fill(addresses_.places().zeros(), std::byte{0});
  for (const Buffer& buffer : plan_.buffers) {
    if (!ends_in_zeros(buffer)) continue;
    std::memset(program_memory_.data() + buffer.offset, 0, byte_size(plan_, buffer));
  }
  packed_ = std::move(*packed);
  scratch_memory_ = std::move(*scratch);
  scratch_.data = scratch_memory_.data();
  std::byte* next = packed_.data();
  for (PreparedLaunch* launch : prepared_launches()) {
    launch->packed = next;
    next += launch->packed_bytes;
  }
  for (const PreparedStage& stage : stages_) {
    if (stage.steps == nullptr) continue;
    stage.steps->use_memory(next);
    next += ceil_div(stage.steps->memory_bytes(), kLine) * kLine;
  }
  for (TotalWork* total : totals) {
    total->packed = next;
    next += ceil_div(total->packed_bytes(), kLine) * kLine;
  }
  return {};
}

int64_t CpuExecutable::rows_of(const Stage& stage, const Launch& launch, int64_t steps) const {
  if (stage.domain == Domain::Step) return plan_.batch;
  if (stage.domain == Domain::Sequence) return plan_.batch * steps;
  return once_rows(plan_, launch);
}

/// Of a row.
double CpuExecutable::operations_of(size_t stage, size_t launch) const {
  if (const auto& total = stages_[stage].totals[launch]) return total->operations_per_row();
  const auto& prepared = stages_[stage].launches[launch];
  return prepared == nullptr ? 0 : prepared->operations_per_row;
}

void CpuExecutable::estimate_tracks(int threads) {
  tracks_ = find_tracks(plan_);
  const auto estimate_stage = [&](size_t i, Track& track) {
    const auto steps = static_cast<double>(plan_.chunk);
    if (const ChunkStage* stage = stages_[i].steps.get()) {
      track.alone += steps * stage->step_alone();
      track.shared += steps * stage->step_shared() + (stage->threads() > 1 ? kHandOver : 0);
      return;
    }
    const Stage& stage = plan_.stages[i];
    for (size_t j = 0; j < stage.launches.size(); ++j) {
      const double per_row = operations_of(i, j);
      if (per_row == 0) continue;
      const auto rows = static_cast<double>(rows_of(stage, stage.launches[j], plan_.chunk));
      const double operations = rows * per_row;
      const double alone = nanoseconds(operations, module_->gemm().lanes);
      track.alone += alone;
      track.shared += operations < kWorthSharing ? alone : alone / threads + kHandOver;
    }
  };
  for (std::vector<Track>& tracks : tracks_) {
    for (Track& track : tracks) {
      for (const size_t stage : track.stages) estimate_stage(stage, track);
    }
  }
}

/// As many as some stage, or the tracks of a wave, can use.
int CpuExecutable::useful_threads(int most_threads) const {
  int threads = 1;
  for (const std::span<const Track> tracks : tracks_) {
    const auto together = std::min<size_t>(tracks.size(), most_threads);
    if (worth_side_by_side(tracks.first(together))) {
      threads = std::max(threads, static_cast<int>(together));
    }
  }
  for (size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = plan_.stages[i];
    if (stages_[i].steps != nullptr) threads = std::max(threads, stages_[i].steps->threads());
    if (stage.domain == Domain::Step) continue;
    for (size_t j = 0; j < stage.launches.size(); ++j) {
      const auto rows = static_cast<double>(rows_of(stage, stage.launches[j], plan_.chunk));
      const double shares = rows * operations_of(i, j) / (kWorthSharing / 2);
      if (shares > threads) threads = static_cast<int>(std::min<double>(shares, most_threads));
    }
  }
  return threads;
}

// --- A call ------------------------------------------------------------------------------------

Status CpuExecutable::run(const Call& call, bool run_once) {
  const FlushedSubnormals flushed;
  call_ = call;
  addresses_.find(call);
  record(call.times);
  if (run_once) run_once_stages();
  for (uint32_t sweep = 0; sweep < plan_.sweeps; ++sweep) run_sweep(sweep);
  if (call.piece.ends) run_last_stages();
  if (call.times != nullptr) call.times->end_call();
  return {};
}

void CpuExecutable::record(LaunchTimes* times) {
  if (times != nullptr) times->begin_call(everyone().threads());
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (stages_[i].steps != nullptr) stages_[i].steps->record(times, i);
  }
}

void CpuExecutable::run_once_stages() {
  for (size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = plan_.stages[i];
    if (stage.domain != Domain::Once) continue;
    for (size_t j = 0; j < stage.launches.size(); ++j) {
      const Launch& launch = stage.launches[j];
      const PreparedLaunch* prepared = stages_[i].launches[j].get();
      if (prepared != nullptr) pack(*prepared);
      run_launch(launch, prepared, rows_of(stage, launch, 0), {}, everyone());
    }
  }
  // What these stages made are weights of the others.
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (!is_of_sweeps(plan_.stages[i].domain)) continue;
    for (const auto& launch : stages_[i].launches) {
      if (launch != nullptr) pack(*launch);
    }
  }
}

void CpuExecutable::run_last_stages() {
  for (size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = plan_.stages[i];
    if (stage.domain != Domain::Last) continue;
    for (size_t j = 0; j < stage.launches.size(); ++j) {
      const Launch& launch = stage.launches[j];
      const LaunchTimer timer(call_.times, {.stage = i, .launch = j});
      if (const auto& total = stages_[i].totals[j]) {
        run(*total, rows_of(stage, launch, 0), {}, everyone());
        continue;
      }
      const PreparedLaunch* prepared = stages_[i].launches[j].get();
      if (prepared != nullptr) pack(*prepared);
      run_launch(launch, prepared, rows_of(stage, launch, 0), {}, everyone());
    }
  }
}

void CpuExecutable::clear_totals(uint32_t sweep) {
  for (const BufferId id : cleared_[sweep]) {
    std::memset(addresses_.of(id), 0, byte_size(plan_, plan_.buffers[id]));
  }
}

void CpuExecutable::run_sweep(uint32_t sweep) {
  if (call_.piece.begins) clear_totals(sweep);
  const Waves waves(plan_, sweep, call_.steps);
  for (const Wave& wave : waves) {
    begin_states(sweep, wave);
    run_wave(sweep, wave);
    end_states(sweep, wave);
    if (!waves.is_last(wave)) keep_history(sweep);
  }
}

void CpuExecutable::begin_states(uint32_t sweep, const Wave& wave) {
  for (uint32_t i = 0; i < states_.size(); ++i) {
    const StatePlan& state = plan_.states[i];
    if (state.sweep != sweep || !wave.begins(state.lag)) continue;
    if (!addresses_.places().copies_initial(i)) continue;
    const bool given = addresses_.places().initial_value(i, call_) != nullptr;
    for (const auto& launch : given ? states_[i].init_given : states_[i].init_declared) {
      if (launch != nullptr) run_parts(*launch, plan_.batch, {}, everyone());
    }
    if (given) turn_initial({plan_, addresses_, call_}, state, {});
    if (given && plan_.descending) hide(i, {});
  }
}

void CpuExecutable::end_states(uint32_t sweep, const Wave& wave) {
  for (uint32_t i = 0; i < states_.size(); ++i) {
    const StatePlan& state = plan_.states[i];
    if (state.sweep != sweep || !wave.ends(state.lag)) continue;
    if (!addresses_.places().copies_final(i)) continue;
    const Position end = wave.position(state.lag, wave.count(state.lag));
    for (const auto& launch : states_[i].write_final) {
      if (launch != nullptr) run_parts(*launch, plan_.batch, end, everyone());
    }
    turn_final({plan_, addresses_, call_}, state);
    if (!plan_.descending) hide(i, end);
  }
}

void CpuExecutable::hide(uint32_t state, Position position) {
  const StatePlan& plan = plan_.states[state];
  const Launches& steps = states_[state].hide;  // the earliest first
  if (call_.reset == nullptr) return;
  const auto count = static_cast<int64_t>(steps.size());
  const int64_t behind = steps_behind(plan_, plan);
  const int64_t first = call_.piece.first_step;
  for (int64_t b = 0; b < plan_.batch && count > 0; ++b) {
    int64_t length = first + call_.steps;
    if (call_.lengths != nullptr) length = std::clamp<int64_t>(call_.lengths[b], 0, length);
    const int64_t visible =
        visible_steps(plan.hiding, call_.reset, plan_.batch, b, length, count + behind);
    // Slots have turned by the steps past the end, and the caller's arrays have not.
    const bool turned = plan_.descending && plan.turns;
    const int64_t past = turned ? call_.steps - std::max<int64_t>(length - first, 0) : 0;
    for (int64_t place = 0; place < count; ++place) {
      if (!is_hidden(plan_, place, count, behind, visible)) continue;
      const int64_t slot = (place + count - past % count) % count;
      const PreparedLaunch& one = *steps[static_cast<size_t>(count - 1 - slot)];
      one.run(locate(one.accesses, position, 0), {b, b + 1, 0, one.tiles}, scratch_.of(0));
    }
  }
}

/// As many tracks at a time as there are threads, so that most of a long wave's tracks are always
/// on the same one, whose cache has their weights.
void CpuExecutable::run_wave(uint32_t sweep, const Wave& wave) {
  std::span<const Track> tracks = tracks_of_wave(tracks_[sweep], wave);
  while (!tracks.empty()) {
    const auto threads = static_cast<size_t>(everyone().threads());
    const std::span<const Track> some = tracks.first(std::min(tracks.size(), threads));
    tracks = tracks.subspan(some.size());
    if (some.size() > 1 && worth_side_by_side(some)) {
      pool_->run(static_cast<int64_t>(some.size()), [&](int64_t track, int thread) {
        run_track(some[track], wave, {.thread = thread});
      });
    } else {
      for (const Track& track : some) run_track(track, wave, everyone());
    }
  }
}

void CpuExecutable::run_track(const Track& track, const Wave& wave, const Crew& crew) {
  const Position start = wave.position(track.lag);
  const int64_t steps = wave.count(track.lag);
  for (const size_t i : track.stages) {
    if (stages_[i].steps != nullptr) {
      stages_[i].steps->run(crew, addresses_, scratch_, start, steps);
      continue;
    }
    const Stage& stage = plan_.stages[i];
    const Position first = first_row_at(plan_, start, steps);
    for (size_t j = 0; j < stage.launches.size(); ++j) {
      const Launch& launch = stage.launches[j];
      const int64_t rows = rows_of(stage, launch, steps);
      const LaunchTimer timer(call_.times, {.stage = i,
                                            .launch = j,
                                            .first_step = start.order(),
                                            .steps = steps,
                                            .thread = crew.thread});
      if (const auto& total = stages_[i].totals[j]) {
        run(*total, rows, first, crew);
      } else {
        run_launch(launch, stages_[i].launches[j].get(), rows, first, crew);
      }
    }
  }
}

void CpuExecutable::keep_history(uint32_t sweep) {
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    const Buffer& buffer = plan_.buffers[i];
    if (!keeps_history(buffer, sweep)) continue;
    const size_t slot = plan_.batch * buffer.width * size_of(buffer.dtype);
    std::byte* memory = addresses_.of(static_cast<BufferId>(i));
    const HistoryMove move = history_move(plan_);
    std::memmove(memory + move.to * slot, memory + move.from * slot, buffer.history * slot);
  }
}

// --- Launches ----------------------------------------------------------------------------------

void* const* CpuExecutable::locate(const std::vector<Access>& accesses, Position position,
                                   int thread) {
  std::vector<void*>& pointers = pointers_[thread];
  for (size_t i = 0; i < accesses.size(); ++i) {
    pointers[i] = addresses_.locate(accesses[i], position);
  }
  return pointers.data();
}

void CpuExecutable::run_launch(const Launch& launch, const PreparedLaunch* prepared, int64_t rows,
                               Position position, const Crew& crew) {
  if (prepared != nullptr) return run_parts(*prepared, rows, position, crew);
  run_plain({plan_, addresses_, call_}, launch, rows, position, crew);
}

/// Products in units of a tile of some rows, others by rows alone: a few units per thread, so that
/// a thread that is late leaves some to the others.
void CpuExecutable::run_parts(const PreparedLaunch& launch, int64_t rows, Position position,
                              const Crew& crew) {
  void* const* addresses = locate(launch.accesses, position, crew.thread);
  const double operations = launch.operations_per_row * static_cast<double>(rows);
  const bool product = !launch.weights.empty();
  const int64_t tiles = product ? launch.tiles : 1;
  const int64_t blocks =
      product ? ceil_div(rows, kRowsPerBlock) : std::min<int64_t>(rows, 4 * crew.threads());
  share_out(crew, blocks * tiles, operations, [&](int64_t unit, int thread) {
    const int64_t block = unit / tiles;
    const int64_t tile = unit % tiles;
    const Part part = {part_begin(rows, blocks, block), part_begin(rows, blocks, block + 1),
                       product ? tile : 0, product ? tile + 1 : launch.tiles};
    launch.run(addresses, part, scratch_.of(thread));
  });
}

/// Blocks of rows in order; within one, the right operand's panels before the products.
void CpuExecutable::run(const TotalWork& total, int64_t rows, Position position, const Crew& crew) {
  const TotalLaunch& launch = total.launch();
  const auto element = static_cast<int64_t>(size_of(plan_.dtype));
  const std::byte* left = addresses_.locate(launch.left, position);
  const std::byte* right = addresses_.locate(launch.right, position);
  std::byte* out = addresses_.locate(launch.out, {});
  const int64_t units = total.units(crew.threads());
  for (int64_t first = 0; first < rows; first += kTotalRows) {
    const TotalWork::Rows block = {
        .left = left + first * launch.left.stride * element,
        .right = right == nullptr ? nullptr : right + first * launch.right.stride * element,
        .out = out,
        .count = std::min(kTotalRows, rows - first),
        .accumulate = launch.accumulate || first > 0};
    const double operations = total.operations_per_row() * static_cast<double>(block.count);
    share_out(crew, total.packs(), operations,
              [&](int64_t index, int) { total.pack(block, index); });
    share_out(crew, units, operations, [&](int64_t unit, int thread) {
      total.run(block, unit, units, scratch_.of(thread));
    });
  }
}

void CpuExecutable::pack(const PreparedLaunch& launch) {
  if (launch.weights.empty()) return;
  void* const* addresses = locate(launch.weights, {}, 0);
  share_out(everyone(), launch.tiles, launch.operations_per_row,
            [&](int64_t tile, int) { launch.pack(addresses, tile); });
}

}  // namespace rnnc::cpu
