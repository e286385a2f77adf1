// 1. Reduce the phases to what tiles depend on (recurrence_shapes.h): lengths, products, and how
//    much is carried.
// 2. Name the variables: the batch groups, warps, rows at once, and for each length that phases
//    have the elements that a block makes; and whether f32 products are split, and weights that
//    find no room are streamed. Blocks follow from these.
#include "passes/tile/recurrence_space.h"

#include <algorithm>
#include <bit>
#include <map>

#include "ir/persistent/recurrence_exchange.h"
#include "ir/persistent/recurrence_gathers.h"
#include "ir/persistent/recurrence_kernel.h"
#include "ir/plan/kernel_facts.h"

namespace rnnc {
namespace {

constexpr int64_t kMostUnits = 128;
constexpr int64_t kMostRowsAtOnce = 32;
constexpr int64_t kMostReducedUnits = 32;  // lanes of a warp

TileEngine engine_of(const Plan& plan) {
  if (plan.dtype != DType::f32) return TileEngine::Half;
  return plan.tf32 ? TileEngine::Tf32 : TileEngine::Exact;
}

/// The fewest groups for each number of rows that groups can have.
std::vector<int64_t> group_counts(int64_t batch, int64_t units) {
  std::vector<int64_t> counts;
  for (int64_t count = 1; count <= std::min(batch, units); ++count) {
    const int64_t rows = (batch + count - 1) / count;
    if ((batch + rows - 1) / rows == count) counts.push_back(count);
  }
  return counts;
}

Choices may(bool allowed) {
  return range(0, allowed ? 1 : 0);
}

/// What makes `strategy`: 0 or 1 if that does not matter.
Choices makes(Strategy strategy, const TileChoice& choice, bool allowed) {
  const bool any = choice.strategy == Strategy::Any || choice.strategy == Strategy::Stacked;
  if (any) return may(allowed);
  const int64_t value = choice.strategy == strategy ? 1 : 0;
  return one_of({value});
}

/// Lanes of a warp reduce the units of a row in pairs. Other units are even, for threads that
/// have two each.
Choices unit_counts(int64_t length, bool reduces) {
  const auto all = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length)));
  if (reduces) return powers_of_two(1, std::min(kMostReducedUnits, all));
  std::vector<int64_t> counts = {1};
  for (int64_t units = 2; units <= std::min(kMostUnits, all); units += units < 32   ? 2
                                                                       : units < 64 ? 8
                                                                                    : 32) {
    counts.push_back(units);
  }
  return one_of(std::move(counts));
}

}  // namespace

TileSpace::TileSpace(const Plan& plan, std::span<const FusedLaunch> launch_phases,
                     const Machine& machine_of_it, const TileChoice& choice)
    : machine(machine_of_it),
      machine_units(std::max<int64_t>(1, machine.units / choice.beside)),
      sides(choice.sides),
      engine(engine_of(plan)),
      batch(plan.batch),
      element_bytes(static_cast<int64_t>(size_of(plan.dtype))),
      phases(shapes_of(plan, launch_phases, sides)),
      unlike(unlike_sides(phases, sides)),
      reduces(count_reductions(plan, launch_phases) > 0),
      all_share_k(std::ranges::any_of(launch_phases, have_unequal_sums)),
      groups(problem.variable("groups", one_of(group_counts(plan.batch, machine_units)))),
      warps(problem.variable("warps", powers_of_two(4, 16))),
      k_warps(problem.variable("warps along k", powers_of_two(1, 16))),
      rows(problem.variable("rows", multiples_of(kExchangeTileRows, kMostRowsAtOnce))),
      splits(problem.variable("splits", may(choice.split && engine == TileEngine::Exact))),
      streams(problem.variable("streams", makes(Strategy::Hybrid, choice, sides.size() == 1))),
      clusters(problem.variable("clusters", makes(Strategy::Cluster, choice,
                                                  sides.size() == 1 && machine.cluster_units > 1 &&
                                                      can_be_clusters(plan, launch_phases)))),
      slots(cluster_slots(plan, launch_phases)),
      owns(problem.variable("own sums",
                            may(!reduces && gathers_of(plan, launch_phases, sides).empty()))),
      exact(engine == TileEngine::Exact ? 1 - IntegerExpression(splits) : 0),
      gate_warps(ceil_div(warps, k_warps)),
      threads(kThreadsOfWarp * IntegerExpression(warps)),
      group_rows(ceil_div(plan.batch, groups)),
      passes(ceil_div(group_rows, rows)) {
  add_units();
}

void TileSpace::add_units() {
  std::map<int64_t, IntegerVariable> of_length;
  for (const PhaseShape& phase : phases) {
    const auto length = static_cast<uint64_t>(phase.length);
    const auto [of_phase, fresh] = of_length.try_emplace(phase.length);
    if (fresh) {
      ++lengths;
      const bool is_reduced = std::ranges::any_of(phases, [&](const PhaseShape& other) {
        return other.length == phase.length && other.reductions > 0;
      });
      of_phase->second = problem.variable(fmt::format("units of {}", length),
                                          unit_counts(phase.length, is_reduced));
    }
    units.push_back(of_phase->second);
    blocks = max(blocks, blocks_of(units.size() - 1));
  }
}

IntegerExpression TileSpace::blocks_of(size_t i) const {
  const PhaseShape& phase = phases[i];
  return phase.segments * ceil_div(phase.length / phase.segments, units[i]);
}
IntegerExpression TileSpace::shares_sectors(size_t i) const {
  const int64_t of_sector = kBytesOfSector / element_bytes;
  return min(of_sector * ceil_div(units[i], of_sector) - units[i], 1);
}

bool TileSpace::opens_side(size_t phase) const {
  return std::ranges::binary_search(sides, phase);
}
IntegerExpression TileSpace::has_segments(size_t i) const {
  return 1 - min(blocks_of(i) - phases[i].segments, 1);
}
IntegerExpression TileSpace::tiles(size_t i, const ProductShape& product) const {
  return ceil_div(ceil_div(product.members * IntegerExpression(units[i]), kTileGates), gate_warps);
}
IntegerExpression TileSpace::pieces(const ProductShape& product) const {
  const int64_t all = (product.k_bytes + kExchangePieceBytes - 1) / kExchangePieceBytes;
  return ceil_div(all, k_warps);
}
IntegerExpression TileSpace::are_passes_alike() const {
  const IntegerExpression reasons =
      max(passes - kMostUnrolledPasses, 0) + max(rows - kMostUnrolledRows, 0);
  return min((passes - 1) * reasons, 1);
}
IntegerExpression TileSpace::sums_stored() const {
  const IntegerExpression all = clusters * (1 - exact);
  return group_rows + (1 - all) * group_rows + all * passes * rows;
}
IntegerExpression TileSpace::span_of(size_t i) const {
  const IntegerExpression more = min(max(rows * units[i] - threads, 0), 1);
  const IntegerExpression few = 1 - min(max(group_rows - kLanesOfGate / 2, 0), 1);
  const bool are_words = element_bytes == kBytesOfWord;
  const IntegerExpression apart =
      reduces || are_words ? IntegerExpression(1) : IntegerExpression(clusters);
  const IntegerExpression one = apart * (1 - owns) * (1 - more) + owns * few;
  return min(units[i], kMostSpan - (kMostSpan - 1) * one);
}
IntegerExpression TileSpace::elements_of_thread(size_t i) const {
  const IntegerExpression span = span_of(i);
  const IntegerExpression at_once = ceil_div(span * threads - units[i] + 1, units[i]);
  const IntegerExpression two = min(max(group_rows - kLanesOfGate, 0), 1);
  return span * ((1 - owns) * ceil_div(rows, at_once) +
                 owns * (1 + two) * ceil_div(rows, kExchangeTileRows));
}

}  // namespace rnnc
