/// The order of work of a plan, before any memory is chosen: for each stage of the dependence
/// analysis a list of groups, each of which becomes one launch.
#pragma once

#include <variant>
#include <vector>

#include "ir/graph.h"
#include "passes/dependence.h"

namespace rnnc {

/// Products with one left operand, done as one over their weights stacked: out = left * weights^T,
/// or left * weight where `transposed`.
struct ProductGroup {
  struct Member {
    NodeId node = kNoNode;
    NodeId weight = kNoNode;
    int64_t n = 0;  // elements of the result's row
  };
  NodeId left = kNoNode;
  std::vector<Member> members;
  int64_t k = 0;
  bool transposed = false;
  int64_t rows = 1;  // Once stages: rows of `left`
};

/// Elementwise values and reductions computed by one kernel over rows of `length`.
struct FusedGroup {
  std::vector<NodeId> nodes;   // computed here, ascending
  std::vector<NodeId> copies;  // computed elsewhere or leaves: only stored by this kernel
  int64_t length = 1;
  int64_t rows = 1;  // Once stages
};

using Group = std::variant<ProductGroup, FusedGroup>;

struct ScheduledStage {
  Domain domain = Domain::Sequence;
  uint32_t recurrence = UINT32_MAX;  // Step: index into Dependence::recurrences
  std::vector<Group> groups;         // in order of execution
};

/// Stage 0 runs once, stage 1 is time-parallel; either may be empty.
struct Schedule {
  std::vector<ScheduledStage> stages;
  std::vector<uint32_t> stage;  // per node: where it is computed (leaves: where they are at hand)
};

/// `graph` is bound, without delayed inputs, dot products and dead code (passes/pipeline.h), and
/// without matrices that vary over time. `narrow`: products cannot read other products' results
/// as they are, because the storage type is not the compute type.
Schedule make_schedule(const Graph& graph, const Dependence& dependence, bool narrow);

/// The operands of a product in the roles of `ProductGroup`.
struct ProductOperands {
  NodeId left = kNoNode;
  NodeId weight = kNoNode;
  bool transposed = false;
};
ProductOperands product_operands(const Graph& graph, const Dependence& dependence, NodeId id);

}  // namespace rnnc
