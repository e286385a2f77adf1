/// The order of work of a plan, before any memory is chosen: for each stage of the dependence
/// analysis a list of groups, each of which becomes one launch.
#pragma once

#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph/graph.h"
#include "passes/graph/dependence.h"
#include "passes/options/pass_set.h"
#include "passes/schedule/values.h"

namespace rnnc {

/// Products with one left operand, done as one over their weights stacked: out = left * weights^T.
/// With several blocks `n` and `k` are those of one block.
struct ProductGroup {
  struct Member {
    NodeId node = kNoNode;
    NodeId weight = kNoNode;
    int64_t n = 0;            // elements of the result's row
    bool transposed = false;  // the weight is [k, n]
    NodeId result = kNoNode;  // the node, or the sum that it is a part of
  };
  NodeId left = kNoNode;
  std::vector<Member> members;
  int64_t k = 0;
  int64_t rows = 1;  // Once and Last stages: rows of `left`
  int64_t blocks = 1;
  /// Adds to the results of an earlier group, whose members have the same results in this order.
  bool accumulates = false;
};

/// Elementwise values and reductions computed by one kernel over rows of `length`.
struct FusedGroup {
  std::vector<NodeId> nodes;   // computed here, ascending
  std::vector<NodeId> copies;  // not computed by kernels of this stage: only stored by this one
  int64_t length = 1;
  int64_t rows = 1;       // Once and Last stages
  bool of_batch = false;  // Last stages: the rows are the batch's
  /// Step stages: products in the same launch, whose results are values of this kernel. Results of
  /// a group come in the order in which the results of all of them first appear.
  std::vector<ProductGroup> products;
  /// Results that are stored nowhere are taken where they are first needed, not before all else: a
  /// reduction that does not need them comes first.
  bool takes_late = false;
};

/// A value that has launches of its own: of kind Moved (a total is written where its operands are at
/// hand, and read after all steps), or a mask.
struct MoveGroup {
  NodeId node = kNoNode;
};

using Group = std::variant<ProductGroup, FusedGroup, MoveGroup>;

/// stages[stage].groups[group].
struct GroupPlace {
  uint32_t stage = 0;
  size_t group = 0;
  friend auto operator<=>(const GroupPlace&, const GroupPlace&) = default;
};

/// How a recurrence may be put on top of others (passes/schedule/stacks.h).
struct ScheduledStack {
  std::vector<uint32_t> below;    // stages that may be one launch with it, the nearest first
  std::vector<GroupPlace> ahead;  // between them and it, that it waits for but they do not
};

struct ScheduledStage {
  Domain domain = Domain::Sequence;
  std::vector<uint32_t> recurrences;  // indices into Dependence::recurrences; of loops several
  uint32_t sweep = 0;
  std::vector<Group> groups;  // in order of execution
  /// One launch goes through the steps by itself: a Sequence stage with a recurrence, of one
  /// kernel.
  bool loop = false;
  ScheduledStack stack = {};  // of a Step stage with recurrences
};

/// Whether all steps' work is there at once.
inline bool is_time_parallel(const ScheduledStage& stage) {
  return stage.domain == Domain::Sequence && stage.recurrences.empty();
}

/// Stage 0 runs once; each sweep opens with a time-parallel stage; a stage of domain Last, of a graph
/// with results, comes last. Any of these may be empty.
struct Schedule {
  std::vector<ScheduledStage> stages;
  std::vector<uint32_t> stage;  // per node: where it is computed (leaves: where they are at hand)
  Values values;
  /// Time-parallel products whose results nothing but kernels of recurrences reads, and the stages
  /// of these (passes/schedule/product_readers.h). What one alone reads may be its own.
  std::map<GroupPlace, std::set<uint32_t>> product_readers;
  /// Per node its number before values were made anew, by which people know it; empty: its own.
  std::vector<NodeId> numbers = {};

  NodeId number(NodeId id) const { return numbers.empty() ? id : numbers[id]; }

  uint32_t last_stage() const { return static_cast<uint32_t>(stages.size() - 1); }
  uint32_t sweep_of(NodeId id) const { return stages[stage[id]].sweep; }
  /// Whether a launch of `reader`, a stage, needs what the sweep of `id` kept of it for all steps.
  bool is_late(NodeId id, uint32_t reader) const {
    return !values.in_every_sweep[id] && sweep_of(id) != stages[reader].sweep;
  }
};

inline constexpr uint32_t kFirstParallelStage = 1;

/// Stages of nodes that are not where the dependence analysis has them.
using Homes = std::map<NodeId, uint32_t>;

struct ScheduleOptions {
  PassSet passes;  // of which Hoist, Merge, Sum, Fuse, Epilogue and Loop have a say here
  /// The work of Step stages with these names is formed for one launch over all steps
  /// (passes/schedule/phases.h).
  std::set<std::string> in_phases = {};
  Homes homes = {};
  std::vector<NodeId> numbers = {};  // as in Schedule
};

/// "h, c": the states of the recurrences that a stage runs; empty if it runs none.
std::string stage_name(const Graph& graph, const Dependence& dependence,
                       const ScheduledStage& stage);

/// `graph` is bound, without delays, dot products and dead code (passes/graph/pipeline.h); matrices
/// that vary over time are not reduced, multiplied or transposed. `plan` has its dtype and batch.
Schedule make_schedule(const Graph& graph, const Dependence& dependence, const Plan& plan,
                       const ScheduleOptions& options);

}  // namespace rnnc
