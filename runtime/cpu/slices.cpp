// Algorithm:
// 1. Columns are cut at multiples of the widest tile of the stage's launches, at the same places in
//    all launches, so that what one launch writes of a slice's columns the next reads in the same
//    slice. Launches that cannot be cut there are cut somewhere else, or by rows.
// 2. Two launches conflict if one slice may write what another reads or writes of the same memory.
//    They do not if both touch it cut at the same places.
// 3. The launches of a step follow one another round and round. A launch gets a barrier if it
//    conflicts with any since the last barrier, until none is missing.
// 4. Of slices of rows and of columns in several numbers the one whose slowest slice, barriers
//    included, is estimated the fastest is chosen.
#include "runtime/cpu/slices.h"

#include <algorithm>

#include "ir/plan/plan_touches.h"
#include "runtime/cpu/core_rates.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/thread_pool.h"

namespace rnnc::cpu {
namespace {

using Launches = std::vector<std::unique_ptr<PreparedLaunch>>;

/// Where slices cut what a launch touches.
enum class Cut : uint8_t {
  Rows,
  Columns,  // at the places that the stage's launches have in common
  Other,    // at its own places, or every slice touches all
};

struct SlicedTouch {
  Touch touch;
  Cut cut = Cut::Other;
};

bool cuts_columns(const PreparedLaunch& launch, bool by_columns) {
  return by_columns && launch.tiles > 1;
}

/// The least common width of column slices: a multiple of every launch's tiles, if it can be.
int64_t slice_quantum(const Launches& launches) {
  int64_t quantum = 1;
  for (const auto& launch : launches) {
    if (launch->tiles > 1) quantum = std::max(quantum, launch->tile_columns);
  }
  return quantum;
}

bool is_aligned(const PreparedLaunch& launch, int64_t quantum) {
  return launch.tile_columns > 0 && quantum % launch.tile_columns == 0;
}

Part make_part(const PreparedLaunch& launch, int64_t batch, bool by_columns, int64_t quantum,
               int64_t count, int64_t slice) {
  if (!cuts_columns(launch, by_columns)) {
    return {part_begin(batch, count, slice), part_begin(batch, count, slice + 1), 0, launch.tiles};
  }
  const auto tile = [&](int64_t index) {
    if (!is_aligned(launch, quantum)) return part_begin(launch.tiles, count, index);
    const int64_t quanta = ceil_div(launch.columns, quantum);
    return std::min(part_begin(quanta, count, index) * (quantum / launch.tile_columns),
                    launch.tiles);
  };
  return {0, batch, tile(slice), tile(slice + 1)};
}

std::vector<SlicedTouch> sliced_touches(const Plan& plan, const Launch& launch,
                                        const PreparedLaunch& prepared, bool by_columns,
                                        int64_t quantum) {
  std::vector<SlicedTouch> result;
  const auto* fused = std::get_if<FusedLaunch>(&launch);
  const size_t operands = fused == nullptr ? 0 : 2 * fused->products.size();
  for (const Touch& touch : touches(plan, launch)) {
    const bool operand = result.size() < operands || std::holds_alternative<GemmLaunch>(launch);
    Cut cut = Cut::Rows;
    if (cuts_columns(prepared, by_columns)) {
      const bool vector = !operand && touch.count == prepared.columns;
      cut = vector && is_aligned(prepared, quantum) ? Cut::Columns : Cut::Other;
    }
    result.push_back({touch, cut});
  }
  return result;
}

/// Rows of both lie at the same places.
bool same_rows(const Plan& plan, BufferId a, BufferId b) {
  if (a == b) return true;
  const Buffer& x = plan.buffers[a];
  const Buffer& y = plan.buffers[b];
  return x.extent == Extent::Batch && y.extent == Extent::Batch && x.offset == y.offset &&
         x.width * size_of(x.dtype) == y.width * size_of(y.dtype);
}

bool share_memory(const Plan& plan, const Touch& a, const Touch& b) {
  if (a.access.buffer == b.access.buffer) {
    return a.access.column < b.access.column + b.count &&
           b.access.column < a.access.column + a.count;
  }
  const Buffer& x = plan.buffers[a.access.buffer];
  const Buffer& y = plan.buffers[b.access.buffer];
  if (x.placement == Placement::Caller || x.placement != y.placement) return false;
  if ((x.extent == Extent::Steps) != (y.extent == Extent::Steps)) return false;
  return x.offset < y.offset + byte_size(plan, y) && y.offset < x.offset + byte_size(plan, x);
}

bool conflict(const Plan& plan, const SlicedTouch& a, const SlicedTouch& b) {
  if (!a.touch.write && !b.touch.write) return false;
  if (!share_memory(plan, a.touch, b.touch)) return false;
  if (a.cut != b.cut || a.cut == Cut::Other) return true;
  if (!same_rows(plan, a.touch.access.buffer, b.touch.access.buffer)) return true;
  return a.cut == Cut::Columns &&
         (a.touch.access.column != b.touch.access.column || a.touch.count != b.touch.count);
}

bool conflict(const Plan& plan, const std::vector<SlicedTouch>& a,
              const std::vector<SlicedTouch>& b) {
  return std::ranges::any_of(a, [&](const SlicedTouch& x) {
    return std::ranges::any_of(b, [&](const SlicedTouch& y) { return conflict(plan, x, y); });
  });
}

std::vector<bool> find_barriers(const Plan& plan,
                                const std::vector<std::vector<SlicedTouch>>& launches) {
  std::vector<bool> barriers(launches.size());
  for (bool complete = false; !complete;) {
    complete = true;
    std::vector<size_t> since;  // launches after the last barrier
    for (size_t i = 0; i < 3 * launches.size(); ++i) {
      const size_t launch = i % launches.size();
      const bool missing = !barriers[launch] && std::ranges::any_of(since, [&](size_t earlier) {
        return conflict(plan, launches[earlier], launches[launch]);
      });
      if (missing) complete = false;
      barriers[launch] = barriers[launch] || missing;
      if (barriers[launch]) since.clear();
      since.push_back(launch);
    }
  }
  return barriers;
}

double share_of_tiles(const PreparedLaunch& launch, const Part& part) {
  return static_cast<double>(part.tile_end - part.tile_begin) / static_cast<double>(launch.tiles);
}

}  // namespace

bool Slices::any_barrier() const {
  return std::ranges::count(barriers, true) > 0;
}

double nanoseconds(double operations, int64_t lanes) {
  return operations / (core_rates().operations * static_cast<double>(lanes));
}

double estimate(const Slices& slices, const Launches& launches, int64_t lanes) {
  const CoreRates& rates = core_rates();
  double slowest = 0;
  for (const std::vector<Part>& parts : slices.parts) {
    double weights = 0;
    for (size_t j = 0; j < launches.size(); ++j) {
      weights +=
          static_cast<double>(launches[j]->packed_bytes) * share_of_tiles(*launches[j], parts[j]);
    }
    const double bytes_per_ns = rates.of_weights(weights);
    double total = 0;
    for (size_t j = 0; j < launches.size(); ++j) {
      const auto rows = static_cast<double>(parts[j].row_end - parts[j].row_begin);
      const double share = share_of_tiles(*launches[j], parts[j]);
      if (rows == 0 || share == 0) continue;
      const double arithmetic = launches[j]->slowdown(parts[j].row_end - parts[j].row_begin) *
                                nanoseconds(rows * share * launches[j]->operations_per_row, lanes);
      const double traffic = share * static_cast<double>(launches[j]->packed_bytes) / bytes_per_ns;
      total += std::max(arithmetic, traffic);
      // Slices of columns read what all of them have made of the step before.
      const double others = rows * (1 - share) * static_cast<double>(launches[j]->operand_bytes);
      if (rates.others > 0) total += others / rates.others;
    }
    slowest = std::max(slowest, total);
  }
  const auto barriers = static_cast<double>(std::ranges::count(slices.barriers, true));
  const auto threads = static_cast<double>(slices.parts.size());
  return slowest + barriers * (150 + 40 * threads);
}

Slices make_slices(const Plan& plan, const Stage& stage, const Launches& launches, bool by_columns,
                   int64_t count) {
  Slices slices;
  const int64_t quantum = slice_quantum(launches);
  for (int64_t slice = 0; slice < count; ++slice) {
    auto& parts = slices.parts.emplace_back();
    for (const auto& launch : launches) {
      parts.push_back(make_part(*launch, plan.batch, by_columns, quantum, count, slice));
    }
  }
  slices.barriers.resize(launches.size());
  if (count == 1) return slices;
  std::vector<std::vector<SlicedTouch>> touched;
  for (size_t j = 0; j < launches.size(); ++j) {
    touched.push_back(sliced_touches(plan, stage.launches[j], *launches[j], by_columns, quantum));
  }
  slices.barriers = find_barriers(plan, touched);
  return slices;
}

Slices choose_slices(const Plan& plan, const Stage& stage, const Launches& launches, int64_t lanes,
                     int threads) {
  Slices best = make_slices(plan, stage, launches, false, 1);
  double least = estimate(best, launches, lanes);
  // To share out a chunk costs a hand-over, which its steps have together.
  const double hand_over = kHandOver / static_cast<double>(plan.chunk);
  const auto consider = [&](bool by_columns, int64_t count) {
    Slices slices = make_slices(plan, stage, launches, by_columns, count);
    const double time = estimate(slices, launches, lanes) + hand_over;
    // Of slices of rows that weights' way through the caches makes equal, those with fewer rows:
    // what is left out of the estimate falls with them. (16 threads of a Xeon, LSTM 16x200, 2
    // layers: 16 slices 32.5 us a step, 8 slices 40.2.) More slices of columns may be empty ones.
    if (by_columns ? time >= least : time > least) return;
    least = time;
    best = std::move(slices);
  };
  for (int64_t count = 2; count <= threads;
       count = count < threads ? std::min<int64_t>(2 * count, threads) : count + 1) {
    if (count <= plan.batch) consider(false, count);
    consider(true, count);
  }
  return best;
}

}  // namespace rnnc::cpu
