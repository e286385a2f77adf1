// 1. What can stay in the cache: the weights that steps multiply with, if they all fit, and if they
//    fit too, the chunks that launches hand to each other.
// 2. A launch: arithmetic from its shape, bytes from what it touches. Products that are too small
//    to occupy all units of the machine take longer, and a loop has a latency per step. A resident
//    recurrence takes what its tile does (passes/tile/recurrence_time.h).
// 3. A call: for each sweep the time of each lag's stages for a chunk, one after the other but for
//    recurrences that run side by side; for each wave the greatest among the lags at work in it,
//    but no less than what all of them need of the machine together. A CPU has all its threads at
//    work on one stage: there, the sum. On a GPU, no less than it takes to make the launches.
#include "passes/cost/cost.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

#include "ir/base/arithmetic.h"
#include "ir/plan/launches/launches.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/waves.h"
#include "passes/cost/side_by_side.h"
#include "passes/tile/recurrence_time.h"

namespace rnnc {
namespace {

// Dependent arithmetic of one step: of a CPU; of a GPU's thread, which has the steps of an element
// and little beside them, besides what each operation takes, and each use of the unit for special
// functions (H200, few elements: LRU 58 ns, minGRU 74, QRNN 103, S4D 107, HGRN 128).
constexpr double kLoopStepSeconds = 2e-8;
constexpr double kGpuLoopStepSeconds = 5e-8;
constexpr double kGpuLoopOperationSeconds = 9e-10;
constexpr double kGpuLoopSpecialSeconds = 1e-8;
// What a loop over so many channels or fewer reaches of a GPU's bandwidth (H100, minGRU,
// 64x512x1024 in f32: 2.5 TB/s of 3.35).
constexpr double kGpuLoopBandwidth = 0.75;
constexpr int64_t kGpuLoopChannels = 1 << 16;
// Of a scan (minGRU on an H100): what it takes longer to begin than another launch, to hand states
// from one group of tiles to the next, what it reaches of the bandwidth, and its arithmetic for an
// element of a state.
constexpr double kScanStartSeconds = 8e-6;
constexpr double kScanHopSeconds = 1.8e-6;
constexpr int64_t kScanHopTiles = 16;
constexpr double kScanBandwidth = 0.85;
constexpr double kScanElementSeconds = 2e-12;
// Of a CPU's loops and scans: elements of a vector, and what it takes to share work out.
constexpr int64_t kCpuVector = 16;
constexpr double kCpuHandOverSeconds = 2e-6;
constexpr int64_t kCpuTilesOfThread = 2;  // that it goes through between two of these
// To apply a tile's map to a state, for each of its numbers, and how many elements are so at a time.
constexpr double kCpuHandOnSeconds = 2e-9;
constexpr int64_t kCpuHandOnColumns = 64;
// Rows and columns that one unit of a GPU takes on of a product, and of one whose tiles, as large
// as a library likes them, are enough for all units. (H100, k 12288 in TF32, 1024 columns: 2048
// rows take 182 us, 2736 take 303, 4096 take 290 and 8192 take 551.)
constexpr int64_t kTile = 32;
constexpr int64_t kLargeTile = 128;

Cost operator*(const Cost& cost, double times) {
  return {cost.flops * times,
          cost.bytes * times,
          cost.seconds * times,
          cost.floor_seconds * times,
          cost.arithmetic_seconds * times,
          cost.machine_seconds * times,
          cost.submit_seconds * times};
}

/// Whether none before touches the same place in the same way.
std::vector<bool> first_of_each(const std::vector<Touch>& touches) {
  const auto place = [&](size_t i) {
    const Access& access = touches[i].access;
    return std::tuple(access.buffer, access.delay, access.column, touches[i].write);
  };
  std::vector<size_t> order(touches.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, place);
  std::vector<bool> first(touches.size(), true);
  for (size_t i = 1; i < order.size(); ++i) {
    if (place(order[i]) == place(order[i - 1])) first[order[i]] = false;
  }
  return first;
}

class CostModel {
 public:
  CostModel(const Plan& plan, const CacheUse& cache, const Machine& machine)
      : plan_(plan), machine_(machine), cache_(cache) {
    const auto bytes = static_cast<double>(machine.cache_bytes);
    weights_stay_ = cache.weight_bytes() <= bytes;
    chunks_stay_ = cache.weight_bytes() + cache.chunk_bytes() <= bytes;
  }

  Cost launch(const Stage& stage, const Launch& launch) const {
    Cost cost;
    add_bytes(stage, launch, cost);
    const double traffic = cost.floor_seconds;
    const auto [products, elementwise, width, own_tf32, reachable] =
        work_of(plan_, launch, rows(stage, launch));
    cost.flops = products + elementwise;
    const bool tf32 = plan_.tf32 || own_tf32;
    const double rate = product_flops(machine_, plan_.dtype, tf32);
    const double exact = product_flops(machine_, compute_type(plan_.dtype), false);
    const double busy = occupancy(rows(stage, launch), width);
    cost.arithmetic_seconds = products / rate + elementwise / exact;
    cost.floor_seconds = std::max(cost.arithmetic_seconds, traffic);
    const StepShares shares = shares_of(stage, launch);
    const double share = reachable * product_share(shares, plan_.dtype, tf32);
    const double reached = products / (rate * share) + elementwise / exact;
    const double moved = traffic / shares.bandwidth;
    cost.machine_seconds = std::max(reached, moved);
    const double work = std::max(reached / busy, moved);
    const Times times{reached, moved, work, cost.floor_seconds};
    cost.seconds = machine_.launch_seconds + shares.seconds +
                   std::visit([&](const auto& one) { return seconds_of(one, times); }, launch);
    // Steps of a chunk are a graph, if there are several.
    if (stage.domain == Domain::Sequence || plan_.chunk == 1)
      cost.submit_seconds = machine_.submit_seconds;
    return cost;
  }

  Cost stage(const Stage& stage) const {
    Cost cost;
    for (const Launch& l : stage.launches) cost += launch(stage, l);
    return cost;
  }

  Cost call(int64_t steps) const {
    const int64_t chunks = chunks_of(plan_, steps);
    const int64_t rest = steps - (chunks - 1) * plan_.chunk;
    std::vector<Sweep> sweeps(plan_.sweeps);
    for (const StageRun& run : side_by_side(plan_)) {
      const Stage& first = plan_.stages[run.begin];
      if (is_of_sweeps(first.domain)) add(run, rest, sweeps[first.sweep], first.lag);
    }
    Cost total;
    for (uint32_t i = 0; i < plan_.sweeps; ++i) {
      total += waves(sweeps[i], chunks, between_waves(i));
    }
    return total;
  }

 private:
  // ---- Kinds of launches ----

  /// Of a launch, as if it were of no special kind.
  struct Times {
    double arithmetic = 0;  // on the whole machine
    double traffic = 0;
    double work = 0;  // both, on what the launch keeps busy of it
    double floor = 0;
  };

  /// Besides what every launch takes.
  template <typename L>
  double seconds_of(const L&, const Times& times) const {
    return times.work;
  }

  double seconds_of(const LoopLaunch& loop, const Times& times) const {
    const double latency = loop_step(loop) * static_cast<double>(plan_.chunk);
    const double shared = is_cpu() ? std::max(cpu_loop(loop, times.arithmetic), times.traffic)
                                   : gpu_loop(loop, times);
    return std::max(shared, latency);
  }

  double seconds_of(const ScanLaunch& scan, const Times& times) const {
    if (is_cpu()) return std::max(cpu_scan(scan, times.arithmetic), times.traffic);
    const int64_t hops = ceil_div(plan_.chunk, scan.tile_steps() * kScanHopTiles);
    const double latency = kScanHopSeconds * static_cast<double>(hops);
    const double totals = scan.totals.empty() ? 0 : machine_.launch_seconds;  // of all tiles
    return kScanStartSeconds + totals +
           std::max({times.work / kScanBandwidth, latency, scan_arithmetic(scan)});
  }

  double seconds_of(const RecurrenceLaunch& recurrence, const Times& times) const {
    const RecurrenceTime time = predicted_time(plan_, recurrence, machine_);
    return std::max(times.floor, time.start + time.step * static_cast<double>(plan_.chunk));
  }

  template <typename L>
  const StepShares& step_shares(const L&) const {
    return machine_.step_kernel;
  }
  const StepShares& step_shares(const GemmLaunch&) const { return machine_.step_product; }
  const StepShares& step_shares(const FusedLaunch&) const { return machine_.step_fused; }

  double loop_step(const LoopLaunch& loop) const {
    if (is_cpu()) return kLoopStepSeconds;
    double seconds = kGpuLoopStepSeconds;
    for (const Instruction& instruction : plan_.kernels[loop.kernel].body) {
      if (instruction.kind != Instruction::Kind::Scalar) continue;
      seconds += kGpuLoopOperationSeconds + kGpuLoopSpecialSeconds * info(instruction.op).specials;
    }
    return seconds;
  }

  double gpu_loop(const LoopLaunch& loop, const Times& times) const {
    const bool few = plan_.batch * plan_.kernels[loop.kernel].length <= kGpuLoopChannels;
    return few ? times.work / kGpuLoopBandwidth : times.work;
  }

  /// Of arithmetic that takes `seconds` on all threads: each has rows, and columns of them.
  double cpu_loop(const LoopLaunch& loop, double seconds) const {
    const int64_t vectors = ceil_div(plan_.kernels[loop.kernel].length, kCpuVector);
    return seconds / share_of_threads(plan_.batch * vectors);
  }

  /// Each has tiles of rows, and goes through them once for each round and once more; the steps of a
  /// tile wait for each other, and so do tiles for their states.
  double cpu_scan(const ScanLaunch& scan, double seconds) const {
    const auto rounds = static_cast<double>(scan.rounds.size());
    const int64_t tiles = ceil_div(plan_.chunk, scan.tile_steps());
    const double share = share_of_threads(plan_.batch * tiles);
    const double at_once = static_cast<double>(kCpuTilesOfThread) * share * machine_.units;
    const double waves = std::ceil(static_cast<double>(plan_.batch * tiles) / at_once);
    const double one_by_one = kLoopStepSeconds * static_cast<double>(plan_.batch * plan_.chunk) /
                              (share * machine_.units);
    return waves * (2 * rounds + 1) * kCpuHandOverSeconds + cpu_hand_on(scan, tiles) +
           (rounds + 1) * std::max(seconds / share, one_by_one);
  }

  double cpu_hand_on(const ScanLaunch& scan, int64_t tiles) const {
    double numbers = 0;
    for (const ScanRound& round : scan.rounds) {
      numbers += static_cast<double>(round.coefficients.size() + round.offsets.size());
    }
    const int64_t length = plan_.kernels[scan.kernel].length;
    const int64_t blocks = plan_.batch * ceil_div(length, kCpuHandOnColumns);
    return kCpuHandOnSeconds * numbers * static_cast<double>(plan_.batch * tiles * length) /
           (share_of_threads(blocks) * machine_.units);
  }

  double share_of_threads(int64_t parts) const {
    return static_cast<double>(std::min<int64_t>(parts, machine_.units)) / machine_.units;
  }

  double scan_arithmetic(const ScanLaunch& scan) const {
    const int64_t elements = plan_.batch * plan_.chunk * plan_.kernels[scan.kernel].length;
    int64_t states = 0;
    for (const ScanRound& round : scan.rounds) states += std::ssize(round.states);
    return kScanElementSeconds * static_cast<double>(elements * states);
  }

  bool is_cpu() const { return machine_.kind == Machine::Kind::Cpu; }

  // ---- Launches ----

  int64_t rows(const Stage& stage, const Launch& launch) const {
    if (stage.domain == Domain::Step) return plan_.batch;
    if (stage.domain == Domain::Sequence) return plan_.batch * plan_.chunk;
    return once_rows(plan_, launch);
  }

  void add_bytes(const Stage& stage, const Launch& launch, Cost& cost) const {
    const std::vector<Touch> all = touches(plan_, launch);
    const std::vector<bool> first = first_of_each(all);
    for (size_t i = 0; i < all.size(); ++i) {
      if (!first[i]) continue;
      const Touch& touch = all[i];
      const Access& access = touch.access;
      const Buffer& buffer = plan_.buffers[access.buffer];
      int64_t count = rows(stage, launch);
      if (buffer.extent == Extent::Batch) count = plan_.batch;
      if (buffer.extent == Extent::Invariant && access.stride == 0) count = 1;
      const double bytes = static_cast<double>(count) * static_cast<double>(touch.count) *
                           static_cast<double>(size_of(buffer.dtype));
      cost.bytes += bytes;
      cost.floor_seconds += bytes / bandwidth(stage, access.buffer);
    }
  }

  double bandwidth(const Stage& stage, BufferId id) const {
    const Buffer& buffer = plan_.buffers[id];
    const bool step = stage.domain == Domain::Step;
    bool cached = is_of_sweeps(stage.domain);
    switch (buffer.extent) {
      case Extent::Invariant:
        cached = cached && (step ? weights_stay_ : chunks_stay_);
        break;
      case Extent::Batch:
        break;
      case Extent::Steps:
        cached = false;
        break;
      case Extent::Chunk:
        cached = chunks_stay_ || (step && cache_.is_made_by_steps(id));
        break;
    }
    return cached ? machine_.cache_bandwidth : machine_.memory_bandwidth;
  }

  StepShares shares_of(const Stage& stage, const Launch& launch) const {
    if (stage.domain != Domain::Step) return {};
    return std::visit([&](const auto& one) { return step_shares(one); }, launch);
  }

  /// The share of the machine's units that a launch keeps busy. Threads of a CPU take rows; those
  /// of a GPU tiles of products, and the rest as it comes.
  double occupancy(int64_t rows, int64_t width) const {
    const auto units = static_cast<int64_t>(machine_.units);
    if (machine_.kind == Machine::Kind::Cuda && width == 0) return 1;
    const auto tiles = [&](int64_t size) { return ceil_div(rows, size) * ceil_div(width, size); };
    int64_t parts = rows;
    if (machine_.kind == Machine::Kind::Cuda) {
      parts = tiles(kLargeTile) >= units ? tiles(kLargeTile) : tiles(kTile);
    }
    const int64_t rounds = ceil_div(parts, units);
    return static_cast<double>(parts) / static_cast<double>(rounds * units);
  }

  // ---- Calls ----

  /// Per lag, what a whole chunk takes, and what the last one does.
  struct Sweep {
    std::vector<Cost> full, last;
  };

  /// `rest`: steps of the last chunk.
  void add(const StageRun& run, int64_t rest, Sweep& sweep, uint32_t lag) const {
    sweep.full.resize(std::max<size_t>(sweep.full.size(), lag + 1));
    sweep.last.resize(sweep.full.size());
    std::vector<Cost> full, last;
    for (size_t i = run.begin; i < run.end; ++i) {
      const Cost once = stage(plan_.stages[i]);
      const bool step = plan_.stages[i].domain == Domain::Step;
      full.push_back(step ? once * static_cast<double>(plan_.chunk) : once);
      last.push_back(step ? once * static_cast<double>(rest) : once);
    }
    sweep.full[lag] += together(full);
    sweep.last[lag] += together(last);
  }

  /// Of what runs side by side.
  Cost together(const std::vector<Cost>& costs) const {
    Cost sum;
    double longest = 0;
    for (const Cost& cost : costs) {
      sum += cost;
      longest = std::max(longest, cost.seconds);
    }
    if (!is_cpu()) sum.seconds = std::max(longest, sum.machine_seconds);
    return sum;
  }

  Cost waves(const Sweep& sweep, int64_t chunks, double between) const {
    Cost total;
    const auto lags = static_cast<int64_t>(sweep.full.size());
    for (int64_t wave = 0, alike = 1; wave < chunks + lags - 1; wave += alike) {
      alike = wave >= lags - 1 ? std::max<int64_t>(1, chunks - 1 - wave) : 1;  // all lags at work
      std::vector<Cost> at_work;
      for (int64_t lag = std::max<int64_t>(0, wave - chunks + 1); lag <= std::min(wave, lags - 1);
           ++lag) {
        const bool last = wave - lag == chunks - 1;
        at_work.push_back((last ? sweep.last : sweep.full)[static_cast<size_t>(lag)]);
      }
      Cost cost = together(at_work);
      cost.seconds = std::max(cost.seconds, cost.submit_seconds) + between;
      total += cost * static_cast<double>(alike);
    }
    return total;
  }

  double between_waves(uint32_t sweep) const {
    double bytes = 0;
    for (const Buffer& buffer : plan_.buffers) {
      if (buffer.extent != Extent::Chunk || buffer.sweep != sweep) continue;
      bytes += 2.0 * buffer.history * static_cast<double>(plan_.batch * buffer.width) *
               static_cast<double>(size_of(buffer.dtype));
    }
    const double rate = chunks_stay_ ? machine_.cache_bandwidth : machine_.memory_bandwidth;
    return machine_.wave_seconds + fork_seconds(plan_, sweep, machine_) + bytes / rate;
  }

  const Plan& plan_;
  const Machine& machine_;
  const CacheUse& cache_;
  bool weights_stay_ = false;
  bool chunks_stay_ = false;
};

}  // namespace

Cost& operator+=(Cost& sum, const Cost& cost) {
  sum.flops += cost.flops;
  sum.bytes += cost.bytes;
  sum.seconds += cost.seconds;
  sum.floor_seconds += cost.floor_seconds;
  sum.arithmetic_seconds += cost.arithmetic_seconds;
  sum.machine_seconds += cost.machine_seconds;
  sum.submit_seconds += cost.submit_seconds;
  return sum;
}

Plan with_usual_chunk(Plan plan, int64_t max_steps) {
  constexpr int64_t kUsualChunk = 256;
  plan.chunk = std::clamp<int64_t>(max_steps, 1, kUsualChunk);
  return plan;
}

CacheUse::CacheUse(const Plan& plan) : made_by_steps_(plan.buffers.size(), false) {
  std::vector<bool> weights(plan.buffers.size(), false);
  for (const Stage& stage : plan.stages) {
    if (stage.domain != Domain::Step) continue;
    for (const Launch& launch : stage.launches) {
      for (const Touch& touch : touches(plan, launch)) {
        (touch.write ? made_by_steps_ : weights)[touch.access.buffer] = true;
      }
    }
  }
  for (BufferId id = 0; id < plan.buffers.size(); ++id) {
    const Buffer& buffer = plan.buffers[id];
    if (buffer.extent == Extent::Invariant && weights[id]) {
      weight_bytes_ += static_cast<double>(byte_size(plan, buffer));
    }
    add(plan, buffer);
  }
}

void CacheUse::add(const Plan& plan, const Buffer& buffer) {
  if (buffer.extent != Extent::Chunk) return;
  chunk_bytes_ += static_cast<double>(byte_size(plan, buffer));
}

Cost cost_of(const Plan& plan, const CacheUse& cache, const Stage& stage, const Launch& launch,
             const Machine& machine) {
  return CostModel(plan, cache, machine).launch(stage, launch);
}

Cost cost_of(const Plan& plan, const Stage& stage, const Launch& launch, const Machine& machine) {
  return cost_of(plan, CacheUse(plan), stage, launch, machine);
}

Cost cost_of(const Plan& plan, const CacheUse& cache, const Stage& stage, const Machine& machine) {
  return CostModel(plan, cache, machine).stage(stage);
}

Cost cost_of(const Plan& plan, const Stage& stage, const Machine& machine) {
  return cost_of(plan, CacheUse(plan), stage, machine);
}

Cost cost_of(const Plan& plan, int64_t steps, const Machine& machine) {
  const CacheUse cache(plan);
  return CostModel(plan, cache, machine).call(steps);
}

double fork_seconds(const Plan& plan, uint32_t sweep, const Machine& machine) {
  std::set<uint32_t> lags;
  for (const Stage& stage : plan.stages) {
    if (is_resident(stage) && stage.sweep == sweep) lags.insert(stage.lag);
  }
  return lags.size() > 1 ? machine.fork_seconds : 0;
}

}  // namespace rnnc
