// 1. The space of tiles (recurrence_space.h), what each takes of a unit (recurrence_memory.h) and
//    what time a step takes with it (recurrence_step.h): expressions over the space's variables.
// 2. State what the kernel can do, what the machine has, and what a strategy that is asked for
//    needs.
// 3. Solve for the least time of a step, and stage inputs in what the best leaves.
#include "passes/tile/recurrence_problem.h"

#include <algorithm>
#include <cmath>

#include "ir/persistent/recurrence_exchange.h"
#include "ir/persistent/recurrence_inputs.h"
#include "ir/plan/recurrence_kernel.h"
#include "passes/tile/recurrence_step.h"

namespace rnnc {
namespace {

using Phase = RecurrenceShape::Phase;
using Product = RecurrenceShape::Product;

constexpr int64_t kMostInputSteps = 8;    // what hides the memory's latency
constexpr int64_t kMostCopies = 4;        // of a thread: their addresses take registers
constexpr int64_t kPadOfInputs = 16;      // bytes before them
constexpr int64_t kWarpsOfCluster = 8;    // of a block, at least: with 4, no size was faster
constexpr int64_t kMostWork = 4'000'000;  // of the search, for each length of phases

/// Whether no block need wait for another where each makes whole rows, or whole segments of them.
bool can_stand_alone(std::span<const Phase> phases) {
  return std::ranges::all_of(phases, [](const Phase& phase) {
    return phase.reductions == 0 && std::ranges::all_of(phase.products, [](const Product& product) {
             return !product.exchanged || product.stays;
           });
  });
}

}  // namespace

TileProblem::TileProblem(const Plan& plan, std::span<const FusedLaunch> phases,
                         const Machine& machine, const TileChoice& choice)
    : plan_(plan),
      launch_phases_(phases),
      strategy_(choice.strategy),
      one_step_(choice.one_step),
      space_(plan, phases, machine, choice),
      memory_(space_, choice.spare_registers),
      time_(ticks_of_step(space_, memory_)) {
  require_tile();
  require_clusters();
  require_blocks_along_k();
  require_strategy();
  require_room();
}

TileProblem TileProblem::of(const Plan& plan, const RecurrenceLaunch& launch,
                            const Machine& machine) {
  TileChoice choice = {.sides = launch.tile.sides};
  TileProblem problem(plan, launch.phases, machine, choice);
  // With fewer weights in registers than there could be, some were to be left free.
  const Solution solution = problem.space_.solution_of(launch.tile);
  choice.spare_registers =
      solution.value(problem.memory_.weight_registers) - launch.tile.weight_registers;
  if (choice.spare_registers == 0) return problem;
  return {plan, launch.phases, machine, choice};
}

Result<RecurrenceTile> TileProblem::solve(int64_t rank) const {
  if (Status status = check_strategy(); !status) return tl::unexpected(status.error());
  const Result<Ranking> ranking =
      space_.problem.solve({.least = one_step_ ? time_ + ticks_of_start() : time_,
                            .most = static_cast<size_t>(rank) + 1,
                            .most_work = kMostWork * space_.variables.lengths});
  if (!ranking) return tl::unexpected(ranking.error());
  return tile_of(ranking->best.back());
}

TileNeeds TileProblem::needs(const RecurrenceTile& tile) const {
  const Solution solution = space_.solution_of(tile);
  const int64_t weights = solution.value(memory_.weights_in_shared);
  const int64_t inputs = tile.input_steps * this->inputs(tile).step_bytes;
  return {.registers = solution.value(memory_.registers) + tile.weight_registers,
          .shared_bytes = solution.value(memory_.shared_bytes) + weights + inputs,
          .weights_in_shared = weights};
}

RecurrenceTime TileProblem::time(const RecurrenceTile& tile) const {
  return time(space_.solution_of(tile));
}

// ---- From a solution to a tile ----

RecurrenceTile TileProblem::tile_of(const Solution& solution) const {
  const TileVariables& variables = space_.variables;
  RecurrenceTile tile;
  tile.groups = solution[variables.groups];
  tile.blocks = solution.value(space_.blocks);
  tile.warps = solution[variables.warps];
  tile.k_warps = solution[variables.k_warps];
  tile.k_blocks = solution[variables.k_blocks];
  tile.rows = solution[variables.rows];
  for (const IntegerVariable units : variables.units) tile.units.push_back(solution[units]);
  tile.weight_registers = solution.value(memory_.weight_registers);
  tile.sides = space_.shape().sides;
  tile.streamed_words = solution.value(memory_.streamed_words);
  tile.split = solution[variables.split] != 0;
  tile.own_sums = solution[variables.own_sums] != 0;
  tile.clusters = solution[variables.clusters] != 0;
  tile.input_steps = input_steps(tile, solution);
  const RecurrenceTime time = this->time(solution);
  tile.start_seconds = time.start;
  tile.step_seconds = time.step;
  return tile;
}

/// Of a step, a block and the side that has the most.
RecurrenceInputs TileProblem::inputs(const RecurrenceTile& tile) const {
  RecurrenceInputs most;
  for (size_t side = 0; side < tile.sides.size(); ++side) {
    const RecurrenceInputs of = inputs_of(plan_, launch_phases_, tile, side);
    most.step_bytes = std::max(most.step_bytes, of.step_bytes);
    most.copies = std::max(most.copies, of.copies);
  }
  return most;
}

/// As many as there is room for; none if a thread has many copies.
int64_t TileProblem::input_steps(const RecurrenceTile& tile, const Solution& solution) const {
  const auto [list, bytes, sharers, copies] = inputs(tile);
  if (copies > kMostCopies) return 0;
  const int64_t room = space_.machine.shared_bytes - solution.value(memory_.reserved_bytes) -
                       solution.value(memory_.weights_in_shared) - kPadOfInputs;
  for (int64_t steps = kMostInputSteps; bytes > 0 && steps > 1; steps /= 2) {
    if (steps * bytes <= room) return steps;
  }
  return 0;
}

/// Until the weights are on the chip, which all blocks load. What blocks exchange through memory is
/// cleared by a launch, and clusters need none.
IntegerExpression TileProblem::ticks_of_start() const {
  const Machine& machine = space_.machine;
  const double of_byte = machine.units / machine.cache_bandwidth;
  const double of_launch =
      can_be_clusters(plan_, launch_phases_) ? machine.submit_seconds : 0;  // they do exchange
  return memory_.weight_bytes * std::llround(of_byte * kTicks) +
         (1 - space_.footprint.tile.clusters) * std::llround(of_launch * kTicks);
}

RecurrenceTime TileProblem::time(const Solution& solution) const {
  const auto weights = static_cast<double>(solution.value(memory_.weight_bytes));
  const double step = static_cast<double>(solution.value(time_)) / kTicks;
  const auto behind = static_cast<double>(space_.shape().sides.size() - 1);  // steps, the last side
  return {.start = weights * space_.machine.units / space_.machine.cache_bandwidth + behind * step,
          .step = step};
}

// ---- What tiles there are ----

/// What no tile changes.
Status TileProblem::check_strategy() const {
  if (strategy_ == Strategy::Block && !can_stand_alone(space_.shape().phases)) {
    return fail("its blocks of threads wait for each other however many elements each makes");
  }
  if (strategy_ != Strategy::Cluster && strategy_ != Strategy::SplitK) return {};
  if (space_.machine.cluster_units < 2) {
    return fail("{} has no clusters of blocks", space_.machine.name);
  }
  if (strategy_ == Strategy::SplitK || can_be_clusters(plan_, launch_phases_)) return {};
  return fail("clusters exchange whole vectors that products read, and nothing else");
}

/// Why there is no tile of a strategy; where it is not asked for there are others, and this is no
/// reason.
std::string TileProblem::reason_of(Strategy strategy, std::string reason) const {
  return strategy_ == strategy ? std::move(reason) : std::string();
}

/// What the kernel can do.
void TileProblem::require_tile() {
  IntegerProblem& problem = space_.problem;
  const auto& footprint = space_.footprint;
  const TileNumbers<IntegerExpression>& tile = footprint.tile;
  problem.require(tile.k_warps <= tile.warps);
  if (space_.all_share_k) problem.require(tile.k_warps >= tile.warps);
  problem.require(tile.own_sums * tile.k_warps <= 1);
  for (const IntegerExpression& units : tile.units) {
    problem.require(tile.own_sums * units <= tile.own_sums * (kUnitsOfWarp * tile.warps));
    problem.require(tile.own_sums * (kUnitsOfWarp * tile.warps) <= tile.own_sums * units);
  }
  // No more rows at once than there are.
  problem.require(tile.rows <=
                  kExchangeTileRows * ceil_div(footprint.group_rows, kExchangeTileRows));
  if (space_.shape().engine == RecurrenceEngine::Exact) {
    problem.require(footprint.exact * tile.rows <= kExchangeTileRows);
    problem.require(footprint.exact + tile.own_sums <= 1);
    // Two rows at a time take no weights on their way.
    problem.require(footprint.exact * tile.streams * footprint.group_rows <= kRowsAdded,
                    reason_of(Strategy::Hybrid,
                              "without tensor cores weights are loaded for {limit} rows at most, "
                              "and there are {value}"));
  }
  problem.require(tile.streams <= memory_.streamed_words,
                  reason_of(Strategy::Hybrid, "all its weights find room on the chip"));
}

/// Each block has an even number of elements of every phase, and waits for all others.
void TileProblem::require_clusters() {
  IntegerProblem& problem = space_.problem;
  const auto& footprint = space_.footprint;
  const IntegerExpression& clusters = footprint.tile.clusters;
  const IntegerExpression& blocks = space_.blocks;
  const auto why = [this](const char* reason) { return reason_of(Strategy::Cluster, reason); };
  problem.require(clusters * (blocks - space_.machine.cluster_units) <= 0,
                  why("it needs {value} blocks of threads more than a cluster has"));
  problem.require(2 * clusters <= blocks,
                  why("a cluster has {value} blocks of threads at least, and it has {limit}"));
  problem.require(clusters + footprint.tile.streams <= 1);
  problem.require(kWarpsOfCluster * clusters <= footprint.tile.warps);
  for (size_t p = 0; p < space_.shape().phases.size(); ++p) {
    problem.require(2 * clusters <= footprint.tile.units[p],
                    why("a block of a cluster makes {value} elements of a row at least, and has "
                        "{limit}"));
    problem.require(clusters * (blocks - footprint.blocks(p)) <= 0,
                    why("all blocks of a cluster make elements in every phase, and {value} of "
                        "its blocks would not"));
  }
  problem.require(
      clusters * footprint.tile.groups <=
          clusters_at_once() + (1 - clusters) * space_.machine.units,
      why("it needs {value} clusters at the same time, and the GPU has room for {limit}"));
}

/// All are there at once, have k to share and, where they reduce, elements.
void TileProblem::require_blocks_along_k() {
  IntegerProblem& problem = space_.problem;
  const auto& footprint = space_.footprint;
  const IntegerExpression& k_blocks = footprint.tile.k_blocks;
  const IntegerExpression shares = footprint.shares_k();
  problem.require(shares + footprint.tile.clusters <= 1);
  problem.require(shares + footprint.tile.own_sums <= 1);
  const IntegerExpression blocks =
      std::ssize(space_.shape().sides) * space_.blocks * footprint.tile.groups;
  for (int64_t share = 2; share <= kMostBlocksAlongK; share *= 2) {
    const IntegerExpression is_it =
        footprint::is_above(k_blocks, share - 1) - footprint::is_above(k_blocks, share);
    problem.require(is_it * blocks <= share * space_.machine.clusters(share),
                    reason_of(Strategy::SplitK,
                              "it needs {value} blocks of threads at the same time, and the GPU "
                              "has room for {limit} in such clusters"));
  }
  for (size_t p = 0; p < space_.shape().phases.size(); ++p) {
    if (space_.shape().phases[p].reductions == 0) continue;
    problem.require(footprint.blocks(p) <= footprint.blocks_with_elements(p),
                    reason_of(Strategy::SplitK,
                              "blocks that reduce rows all have elements of them, and {value} "
                              "would share {limit} blocks' elements"));
  }
}

/// Of as many blocks as a group has.
IntegerExpression TileProblem::clusters_at_once() const {
  const Machine& machine = space_.machine;
  IntegerExpression at_once = machine.clusters(machine.cluster_units);
  for (int64_t size = machine.cluster_units / 2; size > 1; size /= 2) {
    const IntegerExpression fits = 1 - footprint::is_above(space_.blocks, size);
    at_once = at_once + fits * (machine.clusters(size) - machine.clusters(2 * size));
  }
  return at_once;
}

/// What makes a strategy that is asked for, beside the variables that say it.
void TileProblem::require_strategy() {
  const std::vector<Phase>& phases = space_.shape().phases;
  if (strategy_ == Strategy::Block) {
    for (size_t p = 0; p < phases.size(); ++p) {
      space_.problem.require(space_.footprint.blocks(p) <= phases[p].segments,
                             "a row takes {value} blocks of threads, which wait for each other, "
                             "and may take {limit}");
    }
  }
  if (strategy_ == Strategy::Grid && can_stand_alone(phases)) {
    space_.problem.require(1 <= cut_rows(),
                           "one block of threads makes whole rows, and none waits for another");
  }
}

/// Phases that wait for others and of which some block has no whole segments.
IntegerExpression TileProblem::cut_rows() const {
  const std::vector<Phase>& phases = space_.shape().phases;
  IntegerExpression cut = 0;
  for (size_t p = 0; p < phases.size(); ++p) {
    const bool waits = std::ranges::any_of(phases[p].products, &Product::exchanged);
    if (waits) cut = cut + (1 - space_.footprint.has_segments(p));
  }
  return cut;
}

/// What the machine has.
void TileProblem::require_room() {
  IntegerProblem& problem = space_.problem;
  const Machine& machine = space_.machine;
  const IntegerExpression blocks = space_.blocks * space_.footprint.tile.groups;  // of a side
  problem.require(
      std::ssize(space_.shape().sides) * blocks <= space_.machine_units,
      fmt::format("it needs {{value}} blocks of threads at the same time, and {}{} has "
                  "room for {{limit}}",
                  space_.machine_units < machine.units ? "its share of " : "", machine.name));
  problem.require(memory_.registers <= memory_.most_registers,
                  "a thread needs {value} registers beside its weights, and has {limit}");
  problem.require(memory_.reserved_bytes <= machine.shared_bytes,
                  "sums need {value:KB} KB of shared memory on each unit, which has {limit:KB}");
  problem.require(memory_.weight_bytes <= memory_.room_for_weights,
                  "it needs {value:KB} KB of weights on each unit, which has room for "
                  "{limit:KB}");
  problem.require(blocks * memory_.streamed_bytes <= machine.cache_bytes,
                  "at every step it needs {value:KB} KB of weights from the cache of all units, "
                  "which has {limit:KB}");
}

}  // namespace rnnc
