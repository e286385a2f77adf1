// The chunk, on a GPU: the shortest of those whose calls the cost model (passes/cost/cost.h) holds
// for the fastest, or a shorter one where much memory goes into it. On a CPU: enough rows for
// products to run at full rate, and no more, because what a chunk leaves should still be in the
// cache; fewer where recurrences that run side by side on its threads would else be alone in most
// waves.
#include "passes/candidates.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "ir/base/arithmetic.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/waves.h"
#include "passes/cost/cost.h"
#include "passes/plan/long_products.h"
#include "passes/plan/split_gemms.h"
#include "passes/plan/wavefront.h"

namespace rnnc {
namespace {

constexpr int64_t kRanks = 4;              // of tiles that a clock ranks
constexpr int64_t kSpare[] = {0, 24, 72};  // registers of a thread, where a device refuses
constexpr int64_t kRowsPerChunk = 1024;    // enough for time-parallel products to run at full rate
constexpr int64_t kLeastChunk = 32;
constexpr int64_t kMostChunk = 256;
constexpr int64_t kMostResidentChunk = 512;
constexpr int64_t kMostScanRows = 1 << 17;  // of a chunk, before a scan or with its totals
constexpr int64_t kMostParts = 32;
constexpr int64_t kFreeChunkBytes = int64_t{384} << 20;
constexpr int64_t kCoreCacheBytes = 1 << 20;  // second level
constexpr int64_t kThreadsOfCache = 2;        // for which a chunk of one such is right
constexpr int64_t kCoreWeightBytes = 3 * kCoreCacheBytes / 4;
constexpr int64_t kRowsInCache = 256;
constexpr int64_t kLeastRows = 16;  // for products to run at nearly full rate
constexpr int64_t kWaves = 8;
constexpr int64_t kThreadsToShare = 4;  // for each recurrence
constexpr int64_t kShortChunk = 4;
constexpr int64_t kTilesOfThread = 2;
constexpr int64_t kVector = 16;  // channels

bool is_step_recurrence(const Stage& stage) {
  return stage.domain == Domain::Step && stage.recurrence != RecurrenceClass::None;
}

bool is_chunk(const Buffer& buffer) {
  return buffer.extent == Extent::Chunk;
}

/// On a CPU: what a chunk's products leave for its steps stays in the cores' own caches, unless rows
/// are so wide that its products would be too small for that. Of more threads each goes through
/// fewer rows. (128 steps on 16 threads of a Xeon, LSTM 64x200: 43.4 us a step in chunks of 5,
/// 35.1 in chunks of 40.)
int64_t chunk_for_cores(const Plan& plan, int threads) {
  int64_t widest = 1;  // bytes of a row
  for (const Buffer& buffer : plan.buffers) {
    if (!is_chunk(buffer)) continue;
    widest = std::max(widest, buffer.width * static_cast<int64_t>(size_of(buffer.dtype)));
  }
  const int64_t rows = kCoreCacheBytes / widest;
  const int64_t shares = std::max<int64_t>(1, threads / kThreadsOfCache);
  if (rows >= kRowsInCache) {
    return std::clamp<int64_t>(shares * rows / plan.batch, kShortChunk, kMostChunk);
  }
  return std::clamp((kRowsPerChunk + plan.batch - 1) / plan.batch, kLeastChunk, kMostChunk);
}

/// Whether recurrences run on the chip, and none step by step. Such launches are few and take long
/// to begin, so that chunks may be long.
bool runs_on_chip(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const Stage& s) { return is_resident(s); }) &&
         std::ranges::none_of(plan.stages, is_step_recurrence);
}

const ScanLaunch* scan_of(const Stage& stage) {
  return stage.launches.size() == 1 ? std::get_if<ScanLaunch>(&stage.launches[0]) : nullptr;
}

bool has_scans(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const Stage& stage) { return scan_of(stage); });
}

/// Whether something is kept of a chunk but for what a scan's tiles exchange.
bool keeps_chunks(const Plan& plan) {
  std::vector<bool> keeps;
  for (const Buffer& buffer : plan.buffers) keeps.push_back(is_chunk(buffer));
  for (const Stage& stage : plan.stages) {
    const ScanLaunch* scan = scan_of(stage);
    if (scan != nullptr && scan->exchange != kNoBuffer) keeps[scan->exchange] = false;
  }
  return std::ranges::count(keeps, true) > 0;
}

bool has_scan_totals(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const Stage& stage) {
    const ScanLaunch* scan = scan_of(stage);
    return scan != nullptr && !scan->totals.empty();
  });
}

/// On a CPU: steps of which each thread has several tiles of a scan; 0 if there is none, or if its
/// threads have enough channels, so that a loop would do and the chunk is that of one.
int64_t steps_for_tiles(const Plan& plan, int threads) {
  int64_t steps = 0;
  for (const Stage& stage : plan.stages) {
    const ScanLaunch* scan = scan_of(stage);
    if (scan == nullptr) continue;
    const int64_t vectors = (plan.kernels[scan->kernel].length + kVector - 1) / kVector;
    if (plan.batch * vectors >= threads) continue;
    steps = std::max(steps, kTilesOfThread * threads * scan->tile_steps());
  }
  return steps;
}

/// Whether the weights of each stage of steps stay in a core's own cache.
bool fits_cores(const Plan& plan) {
  return std::ranges::all_of(plan.stages, [&](const Stage& stage) {
    if (stage.domain != Domain::Step) return true;
    int64_t bytes = 0;
    for (const Launch& launch : stage.launches) {
      for (const Touch& touch : touches(plan, launch)) {
        const Buffer& buffer = plan.buffers[touch.access.buffer];
        if (buffer.extent != Extent::Invariant) continue;
        bytes += touch.count * static_cast<int64_t>(size_of(buffer.dtype));
      }
    }
    return bytes <= kCoreWeightBytes;
  });
}

/// On a CPU: where threads can run recurrences side by side, keeping the weights of each, a
/// sequence has enough waves for most to have several of them. Of so few recurrences that most
/// threads would have none, all share each instead.
int64_t chunk_for_threads(const Plan& plan, int64_t max_steps, int threads) {
  const int64_t chunk = std::min(max_steps, chunk_for_cores(plan, threads));
  const int64_t shorter =
      std::max((max_steps + kWaves - 1) / kWaves, (kLeastRows + plan.batch - 1) / plan.batch);
  Plan trial = plan;
  trial.chunk = chunk;
  if (shorter >= chunk || !fits_cores(plan) || !run_wavefront(trial)) return chunk;
  const int64_t side_by_side = int64_t{last_lag(trial, 0)} + 1;
  return threads < kThreadsToShare * side_by_side ? shorter : chunk;
}

/// Chunks are such a number of steps, or all there are: pieces of totals that are turned begin and
/// end with it (runtime/cuda/plan_products.h).
int64_t unit_of_chunks(const Plan& plan) {
  return std::ranges::any_of(plan.buffers, &Buffer::turned) ? turned_steps(plan) : 1;
}

/// Chunks to try, ascending: those that divide `steps` into equal parts, nearly, and for long
/// sequences powers of two.
std::set<int64_t> chunks(const Plan& plan, int64_t steps) {
  std::set<int64_t> result;
  const int64_t unit = unit_of_chunks(plan);
  int64_t most = std::min(steps, runs_on_chip(plan) ? kMostResidentChunk : kMostChunk);
  if (has_scans(plan)) most = std::min(steps, std::max(most, kMostScanRows / plan.batch));
  for (int64_t chunk = 1; chunk <= most; chunk *= 2) result.insert(chunk);
  for (int64_t count = 1; count <= kMostParts; ++count) {
    result.insert(std::min(most, round_up(ceil_div(steps, count), unit)));
  }
  return result;
}

// ---- On a GPU ----

struct ChunkTrial {
  int64_t chunk = 0;
  double seconds = 0;  // of a call
  int64_t bytes = 0;
};

/// But for memory that they share.
int64_t bytes_of_chunks(const Plan& plan) {
  int64_t bytes = 0;
  for (const Buffer& buffer : plan.buffers) {
    if (is_chunk(buffer)) bytes += byte_size(plan, buffer);
  }
  return bytes;
}

int64_t bytes_of_sequences(const Plan& plan, int64_t steps) {
  int64_t bytes = 0;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.placement != Placement::Caller || buffer.extent != Extent::Steps) continue;
    bytes += steps * plan.batch * buffer.width * static_cast<int64_t>(size_of(buffer.dtype));
  }
  return bytes;
}

/// Of ascending trials: the shortest that is fast, if it takes no more memory than is free. Else the
/// longest that does not, but none that is too slow.
int64_t best_of(const std::vector<ChunkTrial>& trials, int64_t free_bytes,
                const ChunkSlack& slack) {
  const double least = std::ranges::min_element(trials, {}, &ChunkTrial::seconds)->seconds;
  const auto first_within = [&](double slack_of_all) {
    return std::ranges::find_if(
        trials, [&](const ChunkTrial& trial) { return trial.seconds <= slack_of_all * least; });
  };
  const auto fast = first_within(slack.always);
  auto best = first_within(slack.of_much_memory);
  for (auto longer = best; longer <= fast; ++longer) {
    if (longer->bytes <= free_bytes && longer->seconds <= best->seconds) best = longer;
  }
  return best->chunk;
}

/// A step of each stage that runs step by step.
double all_step_seconds(const Plan& plan, const Machine& machine) {
  const CacheUse cache(plan);
  double seconds = 0;
  for (const Stage& stage : plan.stages) {
    if (stage.domain == Domain::Step) seconds += cost_of(plan, cache, stage, machine).seconds;
  }
  return seconds;
}

}  // namespace

double call_seconds(Plan plan, const PlanOptions& options) {
  if (options.passes.has(Pass::Merge)) run_long_products(plan, options.machine);
  if (options.passes.has(Pass::Split)) {
    run_split_gemms(plan, options.machine, {.max_steps = options.max_steps});
  }
  plan.chunk = chunk_of(plan, options);
  if (options.passes.has(Pass::Wavefront)) run_wavefront(plan, options.machine);
  return cost_of(plan, options.max_steps, options.machine).seconds;
}

void take_faster(Plan& plan, Plan other, const PlanOptions& options, double slower) {
  const double most = slower * call_seconds(plan, options);
  if (call_seconds(other, options) < most) plan = std::move(other);
}

StepSeconds step_seconds(const Plan& plan, const Machine& machine) {
  const CacheUse cache(plan);
  StepSeconds seconds;
  for (const Stage& stage : plan.stages) {
    if (!is_step_recurrence(stage)) continue;
    seconds[stage.name] = cost_of(plan, cache, stage, machine).seconds;
  }
  return seconds;
}

bool has_faster_steps(const Plan& other, const Plan& plan, const Machine& machine) {
  return all_step_seconds(other, machine) < all_step_seconds(plan, machine);
}

int64_t chunk_of(const Plan& plan, const PlanOptions& options) {
  if (options.chunk > 0) return std::min(options.chunk, options.max_steps);
  return choose_chunk(plan, options.max_steps, options.passes.has(Pass::Wavefront), options.machine,
                      options.slack);
}

int64_t choose_chunk(const Plan& plan, int64_t max_steps, bool wavefront, const Machine& machine,
                     const ChunkSlack& slack) {
  if (!keeps_chunks(plan)) {
    // Training in pieces has pieces of whole chunks: not all of the longest sequences.
    const int64_t most = std::max<int64_t>(1, kMostScanRows / plan.batch);
    return has_scan_totals(plan) ? std::min(max_steps, most) : max_steps;
  }
  if (machine.kind == Machine::Kind::Cpu) {
    if (const int64_t tiles = steps_for_tiles(plan, machine.units); tiles > 0) {
      return std::min(max_steps, tiles);
    }
    return wavefront && machine.units > 1
               ? chunk_for_threads(plan, max_steps, machine.units)
               : std::min(max_steps, chunk_for_cores(plan, machine.units));
  }
  const WavefrontOfChunk lags = wavefront ? find_wavefront(plan, machine) : WavefrontOfChunk();
  Plan trial = plan;
  std::vector<ChunkTrial> trials;
  for (const int64_t chunk : chunks(plan, max_steps)) {
    if (lags) trial = lags(chunk);
    trial.chunk = chunk;
    trials.push_back({chunk, cost_of(trial, max_steps, machine).seconds, bytes_of_chunks(trial)});
  }
  return best_of(trials, std::max(kFreeChunkBytes, bytes_of_sequences(plan, max_steps)), slack);
}

std::vector<PlanCandidate> plan_candidates(const PlanChoice& own) {
  std::vector<PlanCandidate> all;
  for (PlanChoice choice = own; choice.tile_rank < kRanks; ++choice.tile_rank) {
    all.push_back({fmt::format("rank {}", choice.tile_rank), choice});
  }
  if (own.strategy != Strategy::Any) return all;
  for (const StrategyInfo& info : all_strategies()) {
    PlanChoice choice = own;
    choice.strategy = info.strategy;
    all.push_back({fmt::format("strategy {}", info.name), choice});
  }
  PlanChoice launches = own;
  launches.passes = launches.passes.without(Pass::Resident);
  all.push_back({"launches", launches});
  return all;
}

PlanChoice next_choice(PlanChoice refused) {
  const auto* const more = std::ranges::upper_bound(kSpare, refused.spare_registers);
  if (more != std::end(kSpare)) {
    refused.spare_registers = *more;
  } else {
    refused.spare_registers = kSpare[0];
    ++refused.tile_rank;
  }
  return refused;
}

}  // namespace rnnc
