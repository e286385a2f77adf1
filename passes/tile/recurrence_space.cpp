// Name the variables: the batch groups, warps, rows at once, and for each length that phases have
// the elements that a block makes; whether f32 products are split, weights streamed that find no
// room, groups are clusters, and warps keep their sums. All else follows from these.
#include "passes/tile/recurrence_space.h"

#include <algorithm>
#include <bit>
#include <map>

#include "ir/base/arithmetic.h"
#include "ir/persistent/recurrence_exchange.h"
#include "ir/persistent/recurrence_gathers.h"
#include "ir/plan/kernel_facts.h"

namespace rnnc {
namespace {

constexpr int64_t kMostUnits = 128;
constexpr int64_t kMostRowsAtOnce = 32;
constexpr int64_t kMostReducedUnits = 32;  // lanes of a warp

/// The fewest groups for each number of rows that groups can have.
std::vector<int64_t> group_counts(int64_t batch, int64_t units) {
  std::vector<int64_t> counts;
  for (int64_t count = 1; count <= std::min(batch, units); ++count) {
    const int64_t rows = ceil_div(batch, count);
    if (ceil_div(batch, rows) == count) counts.push_back(count);
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

/// Of blocks, as clusters.
Choices counts_along_k(const TileChoice& choice, const Machine& machine) {
  const bool any = choice.strategy == Strategy::Any || choice.strategy == Strategy::Stacked;
  const bool shared = choice.strategy == Strategy::SplitK;
  if (machine.cluster_units < 2 || (!any && !shared)) return one_of({1});
  return powers_of_two(any ? 1 : 2, std::min<int64_t>(machine.cluster_units, kMostBlocksAlongK));
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

void add_units(IntegerProblem& problem, TileVariables& variables, const RecurrenceShape& shape) {
  std::map<int64_t, IntegerVariable> of_length;
  for (const RecurrenceShape::Phase& phase : shape.phases) {
    const auto [of_phase, fresh] = of_length.try_emplace(phase.length);
    if (fresh) {
      const bool is_reduced = std::ranges::any_of(shape.phases, [&](const auto& other) {
        return other.length == phase.length && other.reductions > 0;
      });
      of_phase->second = problem.variable(fmt::format("units of {}", phase.length),
                                          unit_counts(phase.length, is_reduced));
    }
    variables.units.push_back(of_phase->second);
  }
  variables.lengths = std::ssize(of_length);
}

TileNumbers<IntegerExpression> numbers_of(const TileVariables& variables) {
  return {.groups = variables.groups,
          .warps = variables.warps,
          .k_warps = variables.k_warps,
          .k_blocks = variables.k_blocks,
          .rows = variables.rows,
          .split = variables.split,
          .streams = variables.streams,
          .clusters = variables.clusters,
          .own_sums = variables.own_sums,
          .units = {variables.units.begin(), variables.units.end()}};
}

}  // namespace

TileSpace::TileSpace(const Plan& plan, std::span<const FusedLaunch> launch_phases,
                     const Machine& machine_of_it, const TileChoice& choice)
    : TileSpace(shape_of(plan, launch_phases, choice.sides), plan, launch_phases, machine_of_it,
                choice) {}

TileSpace::TileSpace(RecurrenceShape of_shape, const Plan& plan,
                     std::span<const FusedLaunch> launch_phases, const Machine& machine_of_it,
                     const TileChoice& choice)
    : machine(machine_of_it),
      machine_units(std::max<int64_t>(1, machine.units / choice.beside)),
      variables(name_variables(of_shape, plan, launch_phases, choice)),
      footprint(std::move(of_shape), numbers_of(variables)),
      unlike(unlike_sides(shape())),
      all_share_k(std::ranges::any_of(launch_phases, have_unequal_sums)) {
  for (size_t p = 0; p < shape().phases.size(); ++p) blocks = max(blocks, footprint.blocks(p));
}

/// Where nothing else says which to try first, the search takes them in this order.
TileVariables TileSpace::name_variables(const RecurrenceShape& of_shape, const Plan& plan,
                                        std::span<const FusedLaunch> launch_phases,
                                        const TileChoice& choice) {
  const bool one_side = of_shape.sides.size() == 1;
  const bool can_split = choice.split && of_shape.engine == RecurrenceEngine::Exact;
  const bool has_clusters =
      one_side && machine.cluster_units > 1 && can_be_clusters(plan, launch_phases);
  const bool can_own = !of_shape.reduces && gathers_of(plan, launch_phases, of_shape.sides).empty();
  TileVariables all;
  all.groups = problem.variable("groups", one_of(group_counts(plan.batch, machine_units)));
  all.warps = problem.variable("warps", powers_of_two(4, 16));
  all.k_warps = problem.variable("warps along k", powers_of_two(1, 16));
  all.rows = problem.variable("rows", multiples_of(kExchangeTileRows, kMostRowsAtOnce));
  all.split = problem.variable("splits", may(can_split));
  all.streams =
      problem.variable("streams", makes(Strategy::Hybrid, choice, one_side && !choice.one_step));
  all.clusters = problem.variable("clusters", makes(Strategy::Cluster, choice, has_clusters));
  all.own_sums = problem.variable("own sums", may(can_own));
  all.k_blocks = problem.variable("blocks along k", counts_along_k(choice, machine));
  add_units(problem, all, of_shape);
  return all;
}

bool TileSpace::opens_side(size_t phase) const {
  return std::ranges::binary_search(shape().sides, phase);
}

Solution TileSpace::solution_of(const RecurrenceTile& tile) const {
  const TileNumbers<int64_t> numbers = numbers_of(tile);
  Solution solution;
  solution.values.resize(problem.variables());
  const auto set = [&](IntegerVariable variable, int64_t value) {
    solution.values[variable.index] = value;
  };
  set(variables.groups, numbers.groups);
  set(variables.warps, numbers.warps);
  set(variables.k_warps, numbers.k_warps);
  set(variables.k_blocks, numbers.k_blocks);
  set(variables.rows, numbers.rows);
  set(variables.split, numbers.split);
  set(variables.streams, numbers.streams);
  set(variables.clusters, numbers.clusters);
  set(variables.own_sums, numbers.own_sums);
  for (size_t p = 0; p < variables.units.size(); ++p) set(variables.units[p], numbers.units[p]);
  return solution;
}

}  // namespace rnnc
