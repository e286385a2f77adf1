#include "ir/persistent/recurrence_exchange.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "ir/base/arithmetic.h"
#include "ir/persistent/recurrence_footprint.h"
#include "ir/plan/kernel_facts.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/recurrence_sides.h"

namespace rnnc {
namespace {

constexpr int64_t kPartsOfPiece = 2;    // that may be stored at once, aligned to both
constexpr int64_t kWidthMultiple = 32;  // steps begin at multiples of 128 bytes

/// Vectors of k elements that products read as `left`.
RecurrenceExchange::Slice slice_read_by(const FusedLaunch::Product& product) {
  return {.buffer = product.left.buffer,
          .column = product.left.column,
          .k = product.k,
          .blocks = product.blocks};
}

bool stores_to(const Plan& plan, std::span<const FusedLaunch> phases,
               const RecurrenceExchange::Slice& slice) {
  return std::ranges::any_of(phases, [&](const FusedLaunch& phase) {
    return std::ranges::any_of(touches(plan, phase), [&](const Touch& touch) {
      return touch.write && slice.holds(touch.access, touch.count);
    });
  });
}

/// `work(access, argument, length)` for what a phase stores to the slice.
template <typename Work>
void for_stores(const Plan& plan, std::span<const FusedLaunch> phases,
                const RecurrenceExchange::Slice& slice, const Work& work) {
  for (const FusedLaunch& phase : phases) {
    const Kernel& kernel = plan.kernels[phase.kernel];
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      const Kernel::Argument& argument = kernel.arguments[i];
      const Access& access = phase.accesses[i];
      const bool stores =
          argument.written && slice.holds(access, argument.vector ? kernel.length : 1);
      if (stores) work(access, argument, kernel.length);
    }
  }
}

/// Bytes that a row takes of words, which halves fill in pairs.
int64_t row_bytes(const Plan& plan, std::span<const FusedLaunch> phases,
                  const RecurrenceExchange::Slice& slice) {
  int64_t words = 0;
  for_stores(plan, phases, slice, [&](const Access&, const Kernel::Argument&, int64_t length) {
    words += ceil_div(length * static_cast<int64_t>(size_of(plan.dtype)), kBytesOfWord);
  });
  return words * kBytesOfWord;
}

}  // namespace

bool can_be_clusters(const Plan& plan, std::span<const FusedLaunch> phases) {
  constexpr size_t kOneSide[] = {0};
  if (count_reductions(plan, phases) > 0 || !gathers_of(plan, phases, kOneSide).empty()) {
    return false;
  }
  bool waits = false;
  bool can = true;
  for (const FusedLaunch& phase : phases) {
    for (const FusedLaunch::Product& product : phase.products) {
      const RecurrenceExchange::Slice slice = slice_read_by(product);
      for_stores(plan, phases, slice,
                 [&](const Access& access, const Kernel::Argument& argument, int64_t length) {
                   waits = true;
                   const int64_t behind = access.column - slice.column;
                   can = can && slice.blocks == 1 && argument.vector && behind >= 0 &&
                         behind % 2 == 0 && behind + length <= slice.k;
                 });
    }
  }
  return can && waits;
}

int64_t cluster_slots(const Plan& plan, std::span<const FusedLaunch> phases) {
  uint64_t longest = 0;
  for (const FusedLaunch& phase : phases) {
    for (const FusedLaunch::Product& product : phase.products) {
      if (!stores_to(plan, phases, slice_read_by(product))) continue;
      longest = std::max<uint64_t>(longest, product.left.delay);
    }
  }
  return static_cast<int64_t>(std::bit_ceil(2 + 2 * longest));
}

std::vector<int64_t> phase_segments(const Plan& plan, std::span<const FusedLaunch> phases) {
  std::map<int64_t, int64_t> of_length;
  for (const FusedLaunch& phase : phases) {
    int64_t& segments = of_length.try_emplace(plan.kernels[phase.kernel].length, 1).first->second;
    for (const FusedLaunch::Product& product : phase.products) {
      segments = std::lcm(segments, product.blocks);
    }
  }
  std::vector<int64_t> result;
  for (const FusedLaunch& phase : phases) {
    result.push_back(of_length.at(plan.kernels[phase.kernel].length));
  }
  return result;
}

bool stays_in_block(const Plan& plan, std::span<const FusedLaunch> phases,
                    std::span<const size_t> sides, size_t reader,
                    const FusedLaunch::Product& product) {
  const RecurrenceExchange::Slice slice = slice_read_by(product);
  const int64_t length = plan.kernels[phases[reader].kernel].length;
  const std::vector<int64_t> segments = phase_segments(plan, phases);
  if (segments[reader] != slice.blocks) return false;
  // A vector may be several results of phases, one behind the other.
  const int64_t width = slice.k * slice.blocks;
  if (slice.blocks == 1 ? width % length != 0 : width != length) return false;
  // What a step stores takes the place of what the one before it did, once that has been read.
  const uint32_t delay = product.left.delay;
  const auto in_turn = [&](size_t reads, size_t stores) {
    return delay == 0 ? stores < reads : delay == 1 && reads <= stores;
  };
  for (size_t p = 0; p < phases.size(); ++p) {
    for (const Touch& touch : touches(plan, phases[p])) {
      if (!touch.write || !slice.holds(touch.access, touch.count)) continue;
      const bool all = (touch.access.column - slice.column) % length == 0 &&
                       touch.count == length && side_of(sides, p) == side_of(sides, reader);
      if (!all || plan.kernels[phases[p].kernel].length != length || !in_turn(reader, p)) {
        return false;
      }
    }
  }
  return true;
}

bool all_stay_in_block(const Plan& plan, std::span<const FusedLaunch> phases,
                       std::span<const size_t> sides, size_t side,
                       const FusedLaunch::Product& product) {
  const RecurrenceExchange::Slice slice = slice_read_by(product);
  const RecurrenceSide range = side_at(sides, side, phases.size());
  for (size_t p = range.begin; p < range.end; ++p) {
    for (const FusedLaunch::Product& other : phases[p].products) {
      if (!slice.holds(other.left, other.k * other.blocks)) continue;
      const bool reads_it =
          other.left.column == slice.column && other.k == slice.k && other.blocks == slice.blocks;
      if (!reads_it || !stays_in_block(plan, phases, sides, p, other)) return false;
    }
  }
  return true;
}

size_t slice_of(std::span<const RecurrenceExchange::Slice> slices,
                const FusedLaunch::Product& product) {
  size_t found = slices.size();
  for (size_t i = 0; i < slices.size(); ++i) {
    const RecurrenceExchange::Slice& slice = slices[i];
    const bool is_read = slice.buffer == product.left.buffer &&
                         slice.column == product.left.column && slice.k == product.k &&
                         slice.blocks == product.blocks;
    if (is_read && (found == slices.size() || slice.local)) found = i;
  }
  return found;
}

RecurrenceExchange exchange_of(const Plan& plan, const RecurrenceLaunch& launch) {
  RecurrenceExchange exchange;
  const int64_t group_rows = ceil_div(plan.batch, launch.tile.groups);
  exchange.tile_rows = std::min(kExchangeTileRows, group_rows);
  exchange.tiles = ceil_div(group_rows, kExchangeTileRows);
  const auto element_bytes = static_cast<int64_t>(size_of(plan.dtype));
  const std::vector<int64_t> segments = phase_segments(plan, launch.phases);
  const std::vector<size_t>& sides = launch.tile.sides;
  std::vector<int64_t> local_bytes(sides.size());
  for (size_t p = 0; p < launch.phases.size(); ++p) {
    for (const FusedLaunch::Product& product : launch.phases[p].products) {
      RecurrenceExchange::Slice slice = slice_read_by(product);
      if (!stores_to(plan, launch.phases, slice)) continue;
      slice.side = side_of(sides, p);
      const int64_t segment = plan.kernels[launch.phases[p].kernel].length / segments[p];
      // All phases that read it are of this length then, and have as many units.
      slice.local = launch.tile.units[p] >= segment && launch.tile.k_blocks == 1 &&
                    all_stay_in_block(plan, launch.phases, sides, slice.side, product);
      const bool known = std::ranges::any_of(exchange.slices, [&](const auto& one) {
        return slice_of({&one, 1}, product) == 0 && one.local == slice.local &&
               (!one.local || one.side == slice.side);
      });
      if (known) continue;
      slice.pieces = ceil_div(product.k * element_bytes, kExchangePieceBytes);
      const int64_t vector_bytes =
          footprint::bytes_of_vectors(group_rows, product.k * element_bytes);
      const bool in_cluster = launch.tile.clusters && !slice.local;
      int64_t& end = slice.local  ? local_bytes[slice.side]
                     : in_cluster ? exchange.cluster_bytes
                                  : exchange.step_bytes;
      slice.offset = end;
      end += slice.local || in_cluster ? vector_bytes
                                       : launch.tile.groups * slice.blocks * vector_bytes;
      if (in_cluster) slice.row_bytes = row_bytes(plan, launch.phases, slice);
      exchange.slices.push_back(slice);
    }
  }
  if (launch.tile.clusters) exchange.slots = cluster_slots(plan, launch.phases);
  exchange.local_bytes = std::ranges::max(local_bytes);
  for (size_t side = 0; side < sides.size(); ++side) {
    const auto [begin, end] = side_at(sides, side, launch.phases.size());
    const int64_t reductions =
        count_reductions(plan, std::span(launch.phases).subspan(begin, end - begin));
    const int64_t parts = plan.batch * reductions * launch.tile.blocks;
    exchange.parts.push_back(exchange.step_bytes);
    exchange.step_bytes += ceil_div(parts, kPartsOfPiece) * kPartsOfPiece * kBytesOfPart;
  }
  for (const RecurrenceGather& gather : gathers_of(plan, launch.phases, sides)) {
    exchange.gathered.push_back({gather, exchange.step_bytes});
    exchange.step_bytes += plan.batch * gather.width * kBytesOfWord;
  }
  return exchange;
}

int64_t exchange_width(const Plan& plan, const RecurrenceLaunch& launch) {
  const int64_t words = ceil_div(exchange_of(plan, launch).step_bytes, kBytesOfWord * plan.batch);
  return ceil_div(words, kWidthMultiple) * kWidthMultiple;
}

}  // namespace rnnc
