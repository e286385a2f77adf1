// 1. Take the stages of the dependence analysis, with a time-parallel one right after the Once
//    stage, so that outputs and states made of invariants have a place.
// 2. Collect each stage's work: products, elementwise nodes and reductions; and copies, for values
//    that no kernel of the stage computes but that a state, an output or a product wants stored.
// 3. Within a stage, until no work is left:
//    a. Emit every product whose operands are at hand; those with one left operand as one group.
//    b. Emit one kernel. For each row length with work at hand, grow the set of everything of that
//       length, and scalars, that needs only what is at hand or in the set. Take a length that this
//       finishes for the whole stage, else the one with the largest set.
//    Time-parallel reads of a state wait for the launch that writes it: rows of a launch do not see
//    each other.
// 4. Move values to the kernels that use them (passes/sink.h).
#include "passes/schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "passes/sink.h"

namespace rnnc {
namespace {

constexpr uint32_t kInvariantStage = 0;
constexpr uint32_t kFirstParallelStage = 1;

bool is_leaf(Op op) {
  return op == Op::Input || op == Op::Param || op == Op::State || op == Op::Constant;
}

/// Rows a kernel walks over and elements in each.
struct RowShape {
  int64_t rows = 1;
  int64_t length = 1;
  friend auto operator<=>(const RowShape&, const RowShape&) = default;
};

/// The work of a kernel that computes or copies a value: matrices (in Once stages) row by row.
RowShape row_shape(const Graph& graph, NodeId id, bool copy) {
  const Node& node = graph[id];
  const bool reduces = !copy && is_reduction(node.op);
  const Shape& shape = reduces ? graph[node.operands[0]].type.shape : node.type.shape;
  if (shape.empty()) return {};
  const int64_t length = element_count({shape.back()});
  return {element_count(Shape(shape.begin(), shape.end() - 1)), length};
}

struct Item {
  NodeId value = kNoNode;
  bool copy = false;
  RowShape shape;
  bool flexible = false;  // a scalar: fits into any kernel with one row
};

/// Whether a value has to be stored by a kernel although no kernel computes it.
class CopyNeeds {
 public:
  CopyNeeds(const Graph& graph, bool narrow)
      : wanted_(graph.nodes.size(), false), converted_(graph.nodes.size(), false) {
    for (const StateDecl& state : graph.states) wanted_[state.next] = true;
    for (const OutputDecl& output : graph.outputs) wanted_[output.value] = true;
    if (!narrow) return;
    for (const Node& node : graph.nodes) {
      if (node.op != Op::MatMul) continue;
      for (NodeId operand : node.operands) {
        if (graph[operand].op == Op::MatMul) converted_[operand] = true;
      }
    }
  }
  bool wanted(NodeId id) const { return wanted_[id]; }        // by a state or an output
  bool converted(NodeId id) const { return converted_[id]; }  // a product's result, for a product

 private:
  std::vector<bool> wanted_, converted_;
};

/// Orders the work of one stage.
class StageScheduler {
 public:
  StageScheduler(const Graph& graph, const Dependence& dependence, const CopyNeeds& needs,
                 const std::vector<uint32_t>& stage_of, uint32_t stage, Domain domain)
      : graph_(graph),
        dependence_(dependence),
        needs_(needs),
        stage_of_(stage_of),
        stage_(stage),
        domain_(domain),
        done_(graph.nodes.size(), false),
        stored_(graph.nodes.size(), false) {
    collect();
  }

  std::vector<Group> run() {
    while (!products_.empty() || !items_.empty()) {
      const bool progress = emit_products() | emit_kernel();
      RNNC_CHECK(progress, "stage {} waits for itself", stage_);
    }
    return std::move(groups_);
  }

 private:
  void collect() {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const Op op = graph_[id].op;
      if (stage_of_[id] == stage_) {
        if (op == Op::MatMul) {
          products_.push_back(id);
        } else if (!is_leaf(op)) {
          add_item(id, /*copy=*/false);
        }
      }
      if (needs_copy(id)) add_item(id, /*copy=*/true);
    }
  }

  bool needs_copy(NodeId id) const {
    const Op op = graph_[id].op;
    const bool invariant = dependence_.variation[id] == Variation::Invariant;
    if (needs_.converted(id) && stage_of_[id] == stage_) return true;
    if (!needs_.wanted(id)) return false;
    if (invariant) return stage_ == kFirstParallelStage;
    return stage_of_[id] == stage_ && (op == Op::MatMul || is_leaf(op));
  }

  void add_item(NodeId id, bool copy) {
    const bool flexible = graph_[id].type.is_scalar() && (copy || !is_reduction(graph_[id].op));
    items_.push_back({id, copy, row_shape(graph_, id, copy), flexible});
  }

  /// Is the value there for a kernel to load, or for a product to read?
  bool at_hand(NodeId id) const {
    if (graph_[id].op == Op::State) return state_at_hand(id);
    return stage_of_[id] != stage_ || is_leaf(graph_[id].op) || done_[id];
  }

  bool state_at_hand(NodeId id) const {
    if (domain_ == Domain::Step) return true;  // written at an earlier step or in an earlier stage
    const NodeId next = graph_.states[graph_[id].decl].next;
    const bool invariant = dependence_.variation[next] == Variation::Invariant;
    const uint32_t written_in = invariant ? kFirstParallelStage : stage_of_[next];
    return written_in != stage_ || stored_[next];
  }

  /// A product reads its operands as they are stored for products.
  bool ready_for_product(NodeId id) const {
    if (!at_hand(id)) return false;
    return stage_of_[id] != stage_ || !needs_.converted(id) || stored_[id];
  }

  bool emit_products() {
    std::vector<NodeId> ready;
    for (NodeId id : products_) {
      const ProductOperands operands = product_operands(graph_, dependence_, id);
      if (ready_for_product(operands.left) && ready_for_product(operands.weight)) {
        ready.push_back(id);
      }
    }
    std::map<NodeId, size_t> group_of_left;
    for (NodeId id : ready) {
      std::erase(products_, id);
      add_product(id, group_of_left);
    }
    for (NodeId id : ready) done_[id] = true;
    return !ready.empty();
  }

  /// Products of weights stay apart in Once stages, where each result is an array of its own; so
  /// do transposed ones, whose weights do not stack by copying.
  void add_product(NodeId id, std::map<NodeId, size_t>& group_of_left) {
    const ProductOperands operands = product_operands(graph_, dependence_, id);
    const Shape& weight = graph_[operands.weight].type.shape;
    const int64_t n = element_count({weight[operands.transposed ? 1 : 0]});
    const int64_t k = element_count({weight[operands.transposed ? 0 : 1]});
    const bool mergeable = domain_ != Domain::Once && !operands.transposed;
    if (mergeable) {
      const auto [found, fresh] = group_of_left.emplace(operands.left, groups_.size());
      if (!fresh) {
        std::get<ProductGroup>(groups_[found->second]).members.push_back({id, operands.weight, n});
        return;
      }
    }
    ProductGroup group{operands.left, {{id, operands.weight, n}}, k, operands.transposed, 1};
    const Shape& left = graph_[operands.left].type.shape;
    if (left.size() == 2) group.rows = element_count({left[0]});
    groups_.push_back(std::move(group));
  }

  /// Everything of this shape that can be computed now, by item index.
  std::vector<size_t> grow(const RowShape& shape) const {
    std::vector<size_t> chosen;
    std::set<NodeId> inside;
    for (size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      if (item.shape != shape && !(item.flexible && shape.rows == 1)) continue;
      const auto available = [&](NodeId id) { return at_hand(id) || usable_inside(id, inside); };
      const std::vector<NodeId>& operands = graph_[item.value].operands;
      const bool fits =
          item.copy ? available(item.value) : std::ranges::all_of(operands, available);
      if (!fits) continue;
      chosen.push_back(i);
      if (!item.copy) inside.insert(item.value);
    }
    return chosen;
  }

  /// The reduction of a matrix leaves one number per row of its kernel: a vector for all others.
  bool usable_inside(NodeId id, const std::set<NodeId>& inside) const {
    const Node& node = graph_[id];
    return inside.contains(id) && !(is_reduction(node.op) && !node.type.is_scalar());
  }

  bool emit_kernel() {
    std::map<RowShape, int64_t> pending;
    for (const Item& item : items_) ++pending[item.shape];
    std::vector<size_t> best;
    RowShape best_shape;
    std::tuple<bool, bool, size_t> best_rank;  // of kernels that do nothing: the least
    for (const auto& [shape, count] : pending) {
      std::vector<size_t> chosen = grow(shape);
      const auto of_shape = [&, &s = shape](size_t i) { return items_[i].shape == s; };
      const auto rigid = [&](size_t i) { return !items_[i].flexible; };
      const bool finishes = std::ranges::count_if(chosen, of_shape) == count;
      // Scalars alone wait for company.
      const std::tuple rank(std::ranges::any_of(chosen, rigid), finishes, chosen.size());
      if (chosen.empty() || rank <= best_rank) continue;
      best = std::move(chosen);
      best_shape = shape;
      best_rank = rank;
    }
    if (best.empty()) return false;
    close_kernel(best, best_shape);
    return true;
  }

  void close_kernel(const std::vector<size_t>& chosen, const RowShape& shape) {
    FusedGroup group;
    group.length = shape.length;
    group.rows = shape.rows;
    for (size_t i : chosen) {
      const Item& item = items_[i];
      (item.copy ? group.copies : group.nodes).push_back(item.value);
      stored_[item.value] = true;
      if (!item.copy) done_[item.value] = true;
    }
    for (size_t i = chosen.size(); i-- > 0;) {
      items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(chosen[i]));
    }
    groups_.push_back(std::move(group));
  }

  const Graph& graph_;
  const Dependence& dependence_;
  const CopyNeeds& needs_;
  const std::vector<uint32_t>& stage_of_;
  uint32_t stage_;
  Domain domain_;
  std::vector<NodeId> products_;  // not emitted yet, ascending
  std::vector<Item> items_;       // likewise
  std::vector<bool> done_;        // computed by an earlier launch of this stage
  std::vector<bool> stored_;      // written by a kernel of this stage to wherever it is wanted
  std::vector<Group> groups_;
};

}  // namespace

ProductOperands product_operands(const Graph& graph, const Dependence& dependence, NodeId id) {
  const NodeId first = graph[id].operands[0];
  const NodeId second = graph[id].operands[1];
  if (graph[first].type.rank() == 1) return {first, second, true};
  if (graph[second].type.rank() == 1) return {second, first, false};
  RNNC_CHECK(dependence.variation[id] == Variation::Invariant, "a matrix varies over time");
  return {first, second, true};
}

Schedule make_schedule(const Graph& graph, const Dependence& dependence, bool narrow) {
  Schedule schedule;
  schedule.stages.push_back({Domain::Once, UINT32_MAX, {}});
  schedule.stages.push_back({Domain::Sequence, UINT32_MAX, {}});
  const bool starts_parallel =
      dependence.order.size() > 1 && dependence.order[1].domain == Domain::Sequence;
  const uint32_t shift = starts_parallel ? 0 : 1;
  for (size_t i = starts_parallel ? 2 : 1; i < dependence.order.size(); ++i) {
    schedule.stages.push_back({dependence.order[i].domain, dependence.order[i].recurrence, {}});
  }
  for (uint32_t stage : dependence.stage) {
    schedule.stage.push_back(stage == kInvariantStage ? stage : stage + shift);
  }

  const CopyNeeds needs(graph, narrow);
  for (uint32_t stage = 0; stage < schedule.stages.size(); ++stage) {
    ScheduledStage& scheduled = schedule.stages[stage];
    scheduled.groups =
        StageScheduler(graph, dependence, needs, schedule.stage, stage, scheduled.domain).run();
    sink_values(graph, scheduled);
  }
  return schedule;
}

}  // namespace rnnc
