// 1. The space of tiles (recurrence_space.h), what each needs (recurrence_memory.h) and what time a
//    step takes with it (recurrence_time.h): expressions over the space's variables.
// 2. State the problem: what the kernel can do, what the machine has, and what a strategy that is
//    asked for needs.
// 3. Solve it (passes/solver/integer_problem.h) for the least time of a step.
#include "passes/tile/recurrence_tiles.h"

#include <algorithm>

#include "ir/persistent/recurrence_exchange.h"
#include "ir/persistent/recurrence_inputs.h"
#include "ir/persistent/recurrence_kernel.h"
#include "passes/tile/recurrence_memory.h"
#include "passes/tile/recurrence_space.h"
#include "passes/tile/recurrence_time.h"

namespace rnnc {
namespace {

constexpr int64_t kMostInputSteps = 8;
constexpr int64_t kMostCopies = 4;        // of a thread
constexpr int64_t kPadOfInputs = 16;      // bytes before them
constexpr int64_t kWarpsOfCluster = 8;    // of a block, at least: with 4, no size was faster
constexpr int64_t kMostWork = 4'000'000;  // of the search, for each length of phases

/// Whether no block need wait for another where each makes whole rows, or whole segments of them.
bool can_stand_alone(std::span<const PhaseShape> phases) {
  return std::ranges::all_of(phases, [](const PhaseShape& phase) {
    return phase.reductions == 0 &&
           std::ranges::all_of(phase.products, [](const ProductShape& product) {
             return !product.exchanged || product.stays;
           });
  });
}

class TileProblem {
 public:
  TileProblem(const Plan& plan, std::span<const FusedLaunch> phases, const Machine& machine,
              const TileChoice& choice)
      : plan_(plan),
        launch_phases_(phases),
        strategy_(choice.strategy),
        space_(plan, phases, machine, choice),
        memory_(space_, choice.spare_registers),
        time_(ticks_of_step(space_, memory_)) {
    require();
  }

  Result<RecurrenceTile> solve(int64_t rank) const {
    if (Status status = check_strategy(); !status) return tl::unexpected(status.error());
    const Result<Ranking> ranking = space_.problem.solve({.least = time_,
                                                          .most = static_cast<size_t>(rank) + 1,
                                                          .most_work = kMostWork * space_.lengths});
    if (!ranking) return tl::unexpected(ranking.error());
    const Solution& best = ranking->best.back();
    RecurrenceTile tile;
    tile.groups = best[space_.groups];
    tile.blocks = best.value(space_.blocks);
    tile.warps = best[space_.warps];
    tile.k_warps = best[space_.k_warps];
    tile.rows = best[space_.rows];
    for (const IntegerVariable units : space_.units) tile.units.push_back(best[units]);
    tile.weight_registers = best.value(memory_.weight_registers);
    tile.sides = space_.sides;
    tile.streamed_words = best.value(memory_.streamed_words);
    tile.split = best[space_.splits] != 0;
    tile.own_sums = best[space_.owns] != 0;
    tile.clusters = best[space_.clusters] != 0;
    tile.input_steps = input_steps(tile, best);
    const RecurrenceTime time = this->time(best);
    tile.start_seconds = time.start;
    tile.step_seconds = time.step;
    return tile;
  }

  /// What a tile with fewer weights in registers than there could be leaves.
  int64_t spare_registers(const RecurrenceTile& tile) const {
    return solution_of(tile).value(memory_.weight_registers) - tile.weight_registers;
  }

  TileNeeds needs(const RecurrenceTile& tile) const {
    const Solution solution = solution_of(tile);
    const int64_t weights = solution.value(memory_.weights_in_shared);
    const int64_t inputs = tile.input_steps * this->inputs(tile).step_bytes;
    return {.registers = solution.value(memory_.registers) + tile.weight_registers,
            .shared_bytes = solution.value(memory_.shared_bytes) + weights + inputs,
            .weights_in_shared = weights};
  }

  RecurrenceTime time(const RecurrenceTile& tile) const { return time(solution_of(tile)); }

 private:
  /// What no tile changes.
  Status check_strategy() const {
    if (strategy_ == Strategy::Block && !can_stand_alone(space_.phases)) {
      return fail("its blocks of threads wait for each other however many elements each makes");
    }
    if (strategy_ != Strategy::Cluster) return {};
    if (space_.machine.cluster_units < 2) {
      return fail("{} has no clusters of blocks", space_.machine.name);
    }
    if (can_be_clusters(plan_, launch_phases_)) return {};
    return fail("clusters exchange whole vectors that products read, and nothing else");
  }

  /// Of a step, a block and the side that has the most.
  RecurrenceInputs inputs(const RecurrenceTile& tile) const {
    RecurrenceInputs most;
    for (size_t side = 0; side < space_.sides.size(); ++side) {
      const RecurrenceInputs of = inputs_of(plan_, launch_phases_, tile, side);
      most.step_bytes = std::max(most.step_bytes, of.step_bytes);
      most.copies = std::max(most.copies, of.copies);
    }
    return most;
  }

  /// As many as there is room for, up to what hides the memory's latency; none if a thread has
  /// many copies, whose addresses would take registers.
  int64_t input_steps(const RecurrenceTile& tile, const Solution& solution) const {
    const auto [list, bytes, sharers, copies] = inputs(tile);
    if (copies > kMostCopies) return 0;
    const int64_t room = space_.machine.shared_bytes - solution.value(memory_.shared_bytes) -
                         solution.value(memory_.weights_in_shared) - kPadOfInputs;
    for (int64_t steps = kMostInputSteps; bytes > 0 && steps > 1; steps /= 2) {
      if (steps * bytes <= room) return steps;
    }
    return 0;
  }

  RecurrenceTime time(const Solution& solution) const {
    const auto weights = static_cast<double>(solution.value(memory_.weight_bytes));
    const double step = static_cast<double>(solution.value(time_)) / kTicks;
    const auto behind = static_cast<double>(space_.sides.size() - 1);  // steps, of the last side
    return {
        .start = weights * space_.machine.units / space_.machine.cache_bandwidth + behind * step,
        .step = step};
  }

  void require() {
    const TileSpace& space = space_;
    IntegerProblem& problem = space_.problem;
    problem.require(space.k_warps <= space.warps);
    if (space.all_share_k) problem.require(space.k_warps >= space.warps);
    problem.require(space.owns * space.k_warps <= 1);
    for (const IntegerVariable units : space.units) {
      problem.require(space.owns * units <= space.owns * (kUnitsOfWarp * space.warps));
      problem.require(space.owns * (kUnitsOfWarp * space.warps) <= space.owns * units);
    }
    // No more rows at once than there are.
    problem.require(space.rows <=
                    kExchangeTileRows * ceil_div(space.group_rows, kExchangeTileRows));
    if (space.engine == TileEngine::Exact) {
      problem.require(space.exact * space.rows <= kExchangeTileRows);
      problem.require(space.exact + space.owns <= 1);
      // Two rows at a time take no weights on their way.
      problem.require(space.exact * space.streams * space.group_rows <= kRowsAdded,
                      reason_of(Strategy::Hybrid,
                                "without tensor cores weights are loaded for {limit} rows at most, "
                                "and there are {value}"));
    }
    problem.require(space.streams <= memory_.streamed_words,
                    reason_of(Strategy::Hybrid, "all its weights find room on the chip"));
    require_clusters();
    if (strategy_ == Strategy::Block) require_blocks_alone();
    if (strategy_ == Strategy::Grid) require_exchange();
    problem.require(
        std::ssize(space.sides) * space.blocks * space.groups <= space.machine_units,
        fmt::format("it needs {{value}} blocks of threads at the same time, and {}{} has "
                    "room for {{limit}}",
                    space.machine_units < space.machine.units ? "its share of " : "",
                    space.machine.name));
    problem.require(memory_.registers <= memory_.most_registers,
                    "a thread needs {value} registers beside its weights, and has {limit}");
    problem.require(memory_.shared_bytes <= space.machine.shared_bytes,
                    "sums need {value:KB} KB of shared memory on each unit, which has {limit:KB}");
    problem.require(memory_.weight_bytes <= memory_.room_for_weights,
                    "it needs {value:KB} KB of weights on each unit, which has room for "
                    "{limit:KB}");
    problem.require(
        space.blocks * space.groups * memory_.streamed_bytes <= space.machine.cache_bytes,
        "at every step it needs {value:KB} KB of weights from the cache of all units, "
        "which has {limit:KB}");
  }

  /// Why there is no tile of a strategy; where it is not asked for there are others, and this is no
  /// reason.
  std::string reason_of(Strategy strategy, std::string reason) const {
    return strategy_ == strategy ? std::move(reason) : std::string();
  }

  void require_blocks_alone() {
    for (size_t i = 0; i < space_.phases.size(); ++i) {
      space_.problem.require(space_.blocks_of(i) <= space_.phases[i].segments,
                             "a row takes {value} blocks of threads, which wait for each other, "
                             "and may take {limit}");
    }
  }

  /// Some block waits for others.
  void require_exchange() {
    if (!can_stand_alone(space_.phases)) return;
    IntegerExpression cut = 0;
    for (size_t i = 0; i < space_.phases.size(); ++i) {
      const bool waits = std::ranges::any_of(space_.phases[i].products, &ProductShape::exchanged);
      if (waits) cut = cut + (1 - space_.has_segments(i));
    }
    space_.problem.require(1 <= cut,
                           "one block of threads makes whole rows, and none waits for another");
  }

  /// Each block has an even number of elements of every phase, and waits for all others.
  void require_clusters() {
    const TileSpace& space = space_;
    IntegerProblem& problem = space_.problem;
    const auto why = [this](const char* reason) { return reason_of(Strategy::Cluster, reason); };
    problem.require(space.clusters * (space.blocks - space.machine.cluster_units) <= 0,
                    why("it needs {value} blocks of threads more than a cluster has"));
    problem.require(2 * IntegerExpression(space.clusters) <= space.blocks,
                    why("a cluster has {value} blocks of threads at least, and it has {limit}"));
    problem.require(space.clusters + space.streams <= 1);
    problem.require(kWarpsOfCluster * IntegerExpression(space.clusters) <= space.warps);
    for (size_t i = 0; i < space.units.size(); ++i) {
      problem.require(2 * IntegerExpression(space.clusters) <= space.units[i],
                      why("a block of a cluster makes {value} elements of a row at least, and has "
                          "{limit}"));
      problem.require(space.clusters * (space.blocks - space.blocks_of(i)) <= 0,
                      why("all blocks of a cluster make elements in every phase, and {value} of "
                          "its blocks would not"));
    }
    IntegerExpression at_once = space.machine.clusters(space.machine.cluster_units);
    for (int64_t size = space.machine.cluster_units / 2; size > 1; size /= 2) {
      const IntegerExpression fits = 1 - min(max(space.blocks - size, 0), 1);
      at_once = at_once + fits * (space.machine.clusters(size) - space.machine.clusters(2 * size));
    }
    problem.require(
        space.clusters * space.groups <= at_once + (1 - space.clusters) * space.machine.units,
        why("it needs {value} clusters at the same time, and the GPU has room for {limit}"));
  }

  Solution solution_of(const RecurrenceTile& tile) const {
    Solution solution;
    solution.values.resize(8 + space_.units.size());
    solution.values[space_.clusters.index] = tile.clusters ? 1 : 0;
    solution.values[space_.k_warps.index] = tile.k_warps;
    solution.values[space_.splits.index] = tile.split ? 1 : 0;
    solution.values[space_.owns.index] = tile.own_sums ? 1 : 0;
    solution.values[space_.streams.index] = tile.streamed_words > 0 ? 1 : 0;
    solution.values[space_.groups.index] = tile.groups;
    solution.values[space_.warps.index] = tile.warps;
    solution.values[space_.rows.index] = tile.rows;
    for (size_t i = 0; i < tile.units.size(); ++i) {
      solution.values[space_.units[i].index] = tile.units[i];
    }
    return solution;
  }

  const Plan& plan_;
  std::span<const FusedLaunch> launch_phases_;
  Strategy strategy_;
  TileSpace space_;
  TileMemory memory_;
  IntegerExpression time_;  // of a step, in ticks
};

/// The problem that has the launch's tile among its solutions.
TileProblem problem_of(const Plan& plan, const RecurrenceLaunch& launch, const Machine& machine) {
  TileChoice choice = {.sides = launch.tile.sides};
  TileProblem problem(plan, launch.phases, machine, choice);
  const int64_t spare = problem.spare_registers(launch.tile);
  if (spare == 0) return problem;
  choice.spare_registers = spare;
  return {plan, launch.phases, machine, choice};
}

}  // namespace

Result<RecurrenceTile> choose_recurrence_tile(const Plan& plan, std::span<const FusedLaunch> phases,
                                              const Machine& machine, const TileChoice& choice) {
  if (plan.dtype == DType::f64) return fail("f64 has no kernel for it");
  return TileProblem(plan, phases, machine, choice).solve(choice.rank);
}

Strategy strategy_of(const RecurrenceLaunch& launch) {
  if (launch.tile.sides.size() > 1) return Strategy::Stacked;
  if (launch.tile.clusters) return Strategy::Cluster;
  if (launch.tile.streamed_words > 0) return Strategy::Hybrid;
  return launch.exchange == kNoBuffer ? Strategy::Block : Strategy::Grid;
}

TileNeeds needs_of(const Plan& plan, const RecurrenceLaunch& launch, const Machine& machine) {
  return problem_of(plan, launch, machine).needs(launch.tile);
}

RecurrenceTime predicted_time(const Plan& plan, const RecurrenceLaunch& launch,
                              const Machine& machine) {
  const RecurrenceTile& tile = launch.tile;
  if (tile.step_seconds > 0) return {.start = tile.start_seconds, .step = tile.step_seconds};
  return time_of(plan, launch, machine);
}

RecurrenceTime time_of(const Plan& plan, const RecurrenceLaunch& launch, const Machine& machine) {
  return problem_of(plan, launch, machine).time(launch.tile);
}

}  // namespace rnnc
