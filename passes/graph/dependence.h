/// The one analysis that schedules rest on: which values of a step depend on which steps.
///
/// Add to the step DAG one edge per state from its write (`next`) to each of its reads. The
/// strongly connected components of that graph are the recurrences; every other node is
/// time-parallel (all T steps at once) or, if it depends on params and constants alone,
/// time-invariant. The condensation is a DAG of stages. Nothing is decided by its looks: `W @ x[t]`
/// is time-parallel because no cycle passes through it.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/plan/plan.h"

namespace rnnc {

enum class Variation : uint8_t {
  Invariant,  // depends on params and constants alone
  Sequence,   // varies with (t, b), in no recurrence
  Recurrent,  // in a recurrence
  After,      // a total, or after all steps: made of totals, states' last values and invariants
};

/// A strongly connected component with a cycle through time.
struct Recurrence {
  std::vector<NodeId> nodes;     // ascending, so in topological order within the step
  std::vector<uint32_t> states;  // indices into Graph::states
  RecurrenceClass recurrence_class = RecurrenceClass::Dense;
  std::string reason;   // why it is of this class, for people
  int phases = 0;       // cross-unit dependencies within a step (products, reductions)
  uint32_t blocks = 0;  // Block: units of different blocks, as many as this, never meet
};

struct Dependence {
  std::vector<Variation> variation;  // per node
  std::vector<uint32_t> stage;       // per node: its stage in `order`; invariant nodes: 0
  /// Stages in an order of execution; stage 0 is the invariant one, the others come by sweep
  /// (ir/graph/sweeps.h). Nodes of the same stage are either one recurrence or time-parallel nodes
  /// at the same place between recurrences. A total is in the stage that has what it adds up. Of a
  /// graph with results the stage after all steps comes last.
  struct StageNodes {
    Domain domain = Domain::Sequence;
    std::vector<NodeId> nodes;         // ascending
    uint32_t recurrence = UINT32_MAX;  // Step: index into `recurrences`
    uint32_t sweep = 0;
  };
  std::vector<StageNodes> order;
  std::vector<Recurrence> recurrences;
};

/// `graph` is verified.
Dependence analyse_dependence(const Graph& graph);

}  // namespace rnnc
