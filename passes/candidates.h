/// The ways in which a graph's recurrences may run, and which of them is faster: the one place that
/// ranks them. Within a plan they are ranked by cost, as passes/build_plan.cpp comes to them: its
/// launches, how resident recurrences share the machine, stacks, the chunk. Whole plans, each of a
/// choice, are ranked by a device's clock (runtime/program/tune.h) or, where a device refuses some,
/// in the order in which they are worth trying (runtime/program/choose_plan.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "passes/build_plan.h"

namespace rnnc {

// ---- By cost ----

/// Of a call, as the cost model holds. `plan` has its launches, but no lags and no offsets;
/// products that are left may still be split, and its chunk does not matter.
double call_seconds(Plan plan, const PlanOptions& options);

/// `plan` becomes `other` if a call of that is faster.
/// `slower`: so many times as slow it may look.
void take_faster(Plan& plan, Plan other, const PlanOptions& options, double slower = 1);

/// Of a step of each recurrence that runs step by step, by its name.
using StepSeconds = std::map<std::string, double>;
StepSeconds step_seconds(const Plan& plan, const Machine& machine);

/// Whether steps are faster with the launches of `other`, all in all.
bool has_faster_steps(const Plan& other, const Plan& plan, const Machine& machine);

/// The chunk length for calls of up to `max_steps`: long enough that time-parallel launches run at
/// full rate, short enough that the ramp of the wavefront, if one follows, costs little. `plan` has
/// its launches and no lags; its own chunk does not matter. A plan that keeps no chunk of anything
/// in memory gets one chunk.
int64_t choose_chunk(const Plan& plan, int64_t max_steps, bool wavefront, const Machine& machine,
                     const ChunkSlack& slack = {});
/// The one that was asked for, or else that.
int64_t chunk_of(const Plan& plan, const PlanOptions& options);

// ---- By a device ----

/// What of a plan its device decides.
struct PlanChoice {
  PassSet passes = PassSet::all();
  int64_t tile_rank = 0;
  int64_t spare_registers = 0;
  Strategy strategy = Strategy::Any;

  friend bool operator==(const PlanChoice&, const PlanChoice&) = default;
};

struct PlanCandidate {
  std::string name;
  PlanChoice choice;
};

/// Those that may be fastest on a device: the best few tiles by cost, the best of each strategy,
/// and launches for each step. The options' own choice comes first; with a strategy of its own
/// there are tiles of that only.
std::vector<PlanCandidate> plan_candidates(const PlanChoice& own);

/// The one to try after a choice whose plan a device refused: first with fewer weights in
/// registers, since what spills is most often just too much, and then with the next best tiles.
PlanChoice next_choice(PlanChoice refused);

}  // namespace rnnc
