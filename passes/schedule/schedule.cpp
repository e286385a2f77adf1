// 1. Take the stages of the dependence analysis, with a time-parallel one right after the Once
//    stage, so that outputs and states made of invariants have a place, and one at the start of
//    each sweep, for its masks. Where nothing is hoisted, what is time-parallel runs step by step,
//    after a stage for what only runs over whole sequences.
// 2. Gather recurrences that are one kernel over all steps (passes/schedule/loops.h), put nodes that
//    have a home there, and let the other recurrences do cheap work around them
//    (passes/schedule/absorb.h).
// 3. Find what each stage's kernels have to store although none of them computes it there: values
//    that a state, an output, a product, an assembly or a later sweep wants stored.
// 4. Collect each stage's work: products, elementwise nodes and reductions, moves; and those
//    copies.
// 5. Within a stage, until no work is left:
//    a. Emit every move and product whose operands are at hand.
//    b. Emit one kernel. For each row length with work at hand, grow the set of everything of that
//       length, and scalars, that needs only what is at hand or in the set. Take a length that this
//       finishes for the whole stage, else the one with the largest set. Without fusing, take the
//       first of the set alone.
//    Time-parallel reads of a state wait for the launch that writes it: rows of a launch do not see
//    each other. Views and assemblies are read from memory: they wait for launches too.
// 6. Move values to the kernels that use them (passes/schedule/sink.h), merge products
//    (passes/schedule/merge_products.h), put kernels behind products (passes/schedule/epilogues.h)
//    and add products up (passes/schedule/sums.h). Of recurrences that may be one launch, make all
//    of it phases of that (passes/schedule/phases.h).
// 7. Begin each sweep with the masks that its kernels read.
// 8. Find which products are for recurrences' kernels alone (passes/schedule/product_readers.h).
#include "passes/schedule/schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "ir/graph/sweeps.h"
#include "passes/schedule/absorb.h"
#include "passes/schedule/epilogues.h"
#include "passes/schedule/loops.h"
#include "passes/schedule/merge_products.h"
#include "passes/schedule/phases.h"
#include "passes/schedule/product_readers.h"
#include "passes/schedule/sink.h"
#include "passes/schedule/sums.h"

namespace rnnc {
namespace {

/// Rows a kernel walks over and elements in each.
struct RowShape {
  int64_t rows = 1;
  int64_t length = 1;
  bool of_batch = false;
  friend auto operator<=>(const RowShape&, const RowShape&) = default;
};

/// The work of a kernel that computes or copies a value. Once and Last stages take matrices row by
/// row, in others a matrix is one row. `sequences`: how many of them the value is of, after all
/// steps; 0: of none.
RowShape row_shape(const Graph& graph, NodeId id, bool copy, Domain domain, int64_t sequences) {
  const Node& node = graph[id];
  const bool reduces = !copy && is_reduction(node.op);
  const Shape& shape = reduces ? graph[node.operands[0]].type.shape : node.type.shape;
  if (sequences > 0) return {sequences, element_count(shape), true};
  if (shape.empty()) return {};
  if (is_of_sweeps(domain)) return {1, element_count(shape)};
  return {element_count(Shape(shape.begin(), shape.end() - 1)), element_count({shape.back()})};
}

/// The operands of a product in the roles of `ProductGroup`.
struct ProductOperands {
  NodeId left = kNoNode;
  NodeId weight = kNoNode;
  bool transposed = false;
};

ProductOperands product_operands(const Graph& graph, NodeId id) {
  const NodeId first = graph[id].operands[0];
  const NodeId second = graph[id].operands[1];
  if (graph[first].type.rank() != 1 && graph[second].type.rank() == 1) {
    return {second, first, false};
  }
  return {first, second, true};
}

struct Item {
  NodeId value = kNoNode;
  bool copy = false;
  RowShape shape;
  bool flexible = false;  // a scalar: fits into any kernel with one row
};

/// Which values have to be stored by a kernel although no kernel of the stage computes them.
class CopyNeeds {
 public:
  CopyNeeds(const Graph& graph, const Dependence& dependence, const Schedule& schedule, bool narrow)
      : graph_(graph),
        dependence_(dependence),
        schedule_(schedule),
        values_(schedule.values),
        copies_(schedule.stages.size()),
        converted_(graph.nodes.size(), false) {
    for (const StateDecl& state : graph.states) want(state.next);
    for (const OutputDecl& output : graph.outputs) want(output.value);
    for (const ResultDecl& result : graph.results) want_at_end(result.value);
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      for (NodeId operand : graph[id].operands) {
        read(id, operand);
        if (narrow && takes_storage(id)) convert(operand);
      }
    }
  }

  bool copied(NodeId id, uint32_t stage) const { return copies_[stage].contains(id); }
  /// Whether a product reads this product's result, which has to be in another type for that.
  bool converted(NodeId id) const { return converted_[id]; }

 private:
  /// Of a total there is nothing to copy before the end.
  void copy(NodeId id) {
    const bool total = graph_[id].op == Op::Total;
    copies_[total ? schedule_.last_stage() : schedule_.stage[id]].insert(id);
  }

  void want_at_end(NodeId id) {
    const ValueKind kind = values_.kind[id];
    const bool stores_itself = kind == ValueKind::Fused || kind == ValueKind::Assembly;
    const uint32_t last = schedule_.last_stage();
    if (!stores_itself || schedule_.stage[id] != last) copies_[last].insert(id);
  }

  /// For a state or an output.
  void want(NodeId id) {
    const ValueKind kind = values_.kind[id];
    if (dependence_.variation[id] == Variation::Invariant) {
      copies_[kFirstParallelStage].insert(id);
    } else if (kind != ValueKind::Fused && kind != ValueKind::Assembly) {
      copy(id);
    }
  }

  void read(NodeId user, NodeId operand) {
    const uint32_t stage = schedule_.stage[user];
    const NodeId origin = values_.origin[operand].value;
    switch (values_.kind[user]) {
      case ValueKind::Leaf:
      case ValueKind::Spread:
        break;
      case ValueKind::Fused:
        keep(values_.origin[values_.read[operand]].value, stage);
        break;
      case ValueKind::Assembly:
        if (values_.kind[operand] != ValueKind::Fused || schedule_.stage[operand] != stage) {
          copies_[stage].insert(operand);
        }
        keep(values_.origin[values_.read[operand]].value, stage);
        break;
      case ValueKind::Moved:
        if (graph_[user].op == Op::Reverse && is_mask(graph_[origin].op)) copy(origin);
        [[fallthrough]];
      case ValueKind::View:
      case ValueKind::Product:
        if (values_.kind[origin] == ValueKind::Spread) copy(origin);
        keep(origin, stage);
        break;
    }
  }

  /// For all steps, if `reader` is in a later sweep.
  void keep(NodeId id, uint32_t reader) {
    const ValueKind kind = values_.kind[id];
    const bool stores_itself = kind == ValueKind::Fused || kind == ValueKind::Assembly;
    if (!stores_itself && schedule_.is_late(id, reader)) copy(id);
  }

  /// Products do, and totals of steps' values.
  bool takes_storage(NodeId id) const {
    const Op op = graph_[id].op;
    return op == Op::MatMul ||
           (op == Op::Total && schedule_.stages[schedule_.stage[id]].domain != Domain::Last);
  }

  void convert(NodeId operand) {
    const NodeId origin = values_.origin[operand].value;
    const bool moves = graph_[origin].op == Op::Transpose || graph_[origin].op == Op::Rows;
    if (moves) convert(graph_[origin].operands[0]);
    if (graph_[origin].op != Op::MatMul && graph_[origin].op != Op::Total) return;
    converted_[origin] = true;
    copy(origin);
  }

  const Graph& graph_;
  const Dependence& dependence_;
  const Schedule& schedule_;
  const Values& values_;
  std::vector<std::set<NodeId>> copies_;  // per stage
  std::vector<bool> converted_;           // per node
};

/// Orders the work of one stage.
class StageScheduler {
 public:
  StageScheduler(const Graph& graph, const Dependence& dependence, const Schedule& schedule,
                 const CopyNeeds& needs, uint32_t stage, int64_t batch, bool fuse)
      : graph_(graph),
        dependence_(dependence),
        schedule_(schedule),
        values_(schedule.values),
        needs_(needs),
        stage_(stage),
        domain_(schedule.stages[stage].domain),
        batch_(batch),
        fuse_(fuse),
        done_(graph.nodes.size(), false),
        stored_(graph.nodes.size(), false),
        inside_(graph.nodes.size(), 0) {
    if (domain_ == Domain::Last) after_ = find_after(graph);
    collect();
  }

  std::vector<Group> run() {
    while (!moves_.empty() || !products_.empty() || !items_.empty()) {
      bool progress = emit_moves();
      progress = emit_products() || progress;
      progress = emit_kernel() || progress;
      RNNC_CHECK(progress, "stage {} waits for itself", stage_);
    }
    return std::move(groups_);
  }

 private:
  bool here(NodeId id) const { return schedule_.stage[id] == stage_; }

  void collect() {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const ValueKind kind = values_.kind[id];
      if (here(id) && kind == ValueKind::Moved) moves_.push_back(id);
      if (here(id) && kind == ValueKind::Product) products_.push_back(id);
      if (here(id) && kind == ValueKind::Fused) add_item(id, /*copy=*/false);
      if (needs_.copied(id, stage_)) add_item(id, /*copy=*/true);
    }
  }

  void add_item(NodeId id, bool copy) {
    const bool of_batch = domain_ == Domain::Last && after_[id] == After::Batch;
    const bool flexible =
        graph_[id].type.is_scalar() && !of_batch && (copy || !is_reduction(graph_[id].op));
    items_.push_back(
        {id, copy, row_shape(graph_, id, copy, domain_, of_batch ? batch_ : 0), flexible});
  }

  /// Is the value in memory, for a kernel to load?
  bool at_hand(NodeId id) const {
    id = values_.origin[id].value;
    if (graph_[id].op == Op::State) return state_at_hand(id);
    return !here(id) || values_.kind[id] == ValueKind::Leaf || is_written(id);
  }

  /// By earlier launches of this stage, where its readers find it.
  bool is_written(NodeId id) const {
    if (values_.kind[id] == ValueKind::Assembly) {
      return std::ranges::all_of(
          graph_[id].operands, [this](NodeId piece) { return static_cast<bool>(stored_[piece]); });
    }
    return values_.kind[id] == ValueKind::Spread ? stored_[id] : done_[id];
  }

  bool state_at_hand(NodeId id) const {
    if (domain_ == Domain::Step) return true;  // written at an earlier step or in an earlier stage
    const NodeId next = graph_.states[graph_[id].decl].next;
    const bool invariant = dependence_.variation[next] == Variation::Invariant;
    if ((invariant ? kFirstParallelStage : schedule_.stage[next]) != stage_) return true;
    const bool assembly = !invariant && values_.kind[next] == ValueKind::Assembly;
    return assembly ? is_written(next) : stored_[next];
  }

  /// Is the value in memory as products read it?
  bool ready_for_product(NodeId id) const {
    if (!at_hand(id)) return false;
    const NodeId origin = values_.origin[id].value;
    if (graph_[origin].op == Op::Transpose) return ready_for_product(graph_[origin].operands[0]);
    const bool converts = here(origin) || graph_[origin].op == Op::Total;
    return !converts || !needs_.converted(origin) || stored_[origin];
  }

  bool emit_moves() {
    const auto waits = [this](NodeId id) {
      return !std::ranges::all_of(graph_[id].operands,
                                  [this](NodeId operand) { return ready_for_product(operand); });
    };
    const auto ready = std::ranges::stable_partition(moves_, waits);
    for (NodeId id : ready) {
      groups_.emplace_back(MoveGroup{id});
      done_[id] = true;
    }
    const bool progress = !ready.empty();
    moves_.erase(ready.begin(), ready.end());
    return progress;
  }

  bool emit_products() {
    std::vector<NodeId> ready;
    for (NodeId id : products_) {
      const ProductOperands operands = product_operands(graph_, id);
      if (ready_for_product(operands.left) && ready_for_product(operands.weight)) {
        ready.push_back(id);
      }
    }
    for (NodeId id : ready) {
      std::erase(products_, id);
      add_product(id);
    }
    for (NodeId id : ready) done_[id] = true;
    return !ready.empty();
  }

  void add_product(NodeId id) {
    const ProductOperands operands = product_operands(graph_, id);
    const Shape& weight = graph_[operands.weight].type.shape;
    const size_t rank = weight.size();
    const int64_t n = element_count({weight[operands.transposed ? rank - 1 : rank - 2]});
    ProductGroup group{operands.left, {{id, operands.weight, n, operands.transposed, id}}};
    group.k = element_count({weight[operands.transposed ? rank - 2 : rank - 1]});
    const Shape& left = graph_[operands.left].type.shape;
    if (left.size() == 2) group.rows = element_count({left[0]});
    if (rank == 3) group.blocks = element_count({weight[0]});
    groups_.emplace_back(std::move(group));
  }

  /// Everything of this shape that can be computed now, by item index.
  std::vector<size_t> grow(const RowShape& shape) {
    std::vector<size_t> chosen;
    ++kernel_;
    for (size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      const bool takes_any = shape.rows == 1 && !shape.of_batch;
      if (item.shape != shape && !(item.flexible && takes_any)) continue;
      const auto available = [&](NodeId id) {
        id = values_.read[id];
        return at_hand(id) || usable_inside(id);
      };
      const std::vector<NodeId>& operands = graph_[item.value].operands;
      const bool fits =
          item.copy ? available(item.value) : std::ranges::all_of(operands, available);
      if (!fits) continue;
      chosen.push_back(i);
      if (!item.copy) inside_[item.value] = kernel_;
    }
    return chosen;
  }

  /// The reduction of a matrix leaves one number per row of its kernel: a vector for all others.
  bool usable_inside(NodeId id) const {
    const Node& node = graph_[id];
    return inside_[id] == kernel_ && !(is_reduction(node.op) && !node.type.is_scalar());
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
    if (fuse_) {
      close_kernel(best, best_shape);
    } else {
      for (size_t i : best) close_kernel({i}, items_[i].shape);
    }
    drop_items(best);
    return true;
  }

  void close_kernel(const std::vector<size_t>& chosen, const RowShape& shape) {
    FusedGroup group;
    group.length = shape.length;
    group.rows = shape.rows;
    group.of_batch = shape.of_batch;
    for (size_t i : chosen) {
      const Item& item = items_[i];
      (item.copy ? group.copies : group.nodes).push_back(item.value);
      stored_[item.value] = true;
      if (!item.copy) done_[item.value] = true;
    }
    groups_.push_back(std::move(group));
  }

  /// Those of ascending indices.
  void drop_items(const std::vector<size_t>& dropped) {
    std::vector<Item> rest;
    for (size_t i = 0, next = 0; i < items_.size(); ++i) {
      if (next < dropped.size() && dropped[next] == i) {
        ++next;
      } else {
        rest.push_back(items_[i]);
      }
    }
    items_ = std::move(rest);
  }

  const Graph& graph_;
  const Dependence& dependence_;
  const Schedule& schedule_;
  const Values& values_;
  const CopyNeeds& needs_;
  uint32_t stage_;
  Domain domain_;
  int64_t batch_;
  bool fuse_;
  std::vector<After> after_;      // per node, in a Last stage
  std::vector<NodeId> moves_;     // not emitted yet, ascending
  std::vector<NodeId> products_;  // likewise
  std::vector<Item> items_;       // likewise
  std::vector<bool> done_;        // computed by an earlier launch of this stage
  std::vector<bool> stored_;      // written by a kernel of this stage to wherever it is wanted
  std::vector<uint64_t> inside_;  // the last kernel that was tried with it, by number
  uint64_t kernel_ = 0;           // that is being tried
  std::vector<Group> groups_;
};

/// Step 1.
void make_stages(const Graph& graph, const Dependence& dependence, bool hoist, Schedule& schedule) {
  std::vector<ScheduledStage>& stages = schedule.stages;
  std::vector<uint32_t> number;  // of each of the analysis's stages
  for (const Dependence::StageNodes& nodes : dependence.order) {
    if (nodes.domain == Domain::Last && stages.size() == kFirstParallelStage) {
      stages.push_back({Domain::Sequence, {}, 0, {}});
    }
    const bool opens = !stages.empty() &&
                       (stages.size() == kFirstParallelStage || stages.back().sweep != nodes.sweep);
    const bool steps = nodes.domain == Domain::Step;
    const bool split = nodes.domain == Domain::Sequence && !hoist;
    if ((opens && steps) || split) {
      stages.push_back({Domain::Sequence, {}, nodes.sweep, {}});
    }
    number.push_back(static_cast<uint32_t>(stages.size()));
    stages.push_back({split ? Domain::Step : nodes.domain, {}, nodes.sweep, {}});
    if (steps) stages.back().recurrences.push_back(nodes.recurrence);
    const bool has_totals =
        std::ranges::any_of(nodes.nodes, [&](NodeId id) { return graph[id].op == Op::Total; });
    if (split && has_totals) stages.push_back({Domain::Sequence, {}, nodes.sweep, {}});
  }
  if (stages.size() == kFirstParallelStage) {
    stages.push_back({Domain::Sequence, {}, 0, {}});
  }
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const uint32_t stage = number[dependence.stage[id]];
    const bool steps = stages[stage].domain == Domain::Step;
    const bool whole = schedule.values.kind[id] == ValueKind::Moved || is_mask(graph[id].op);
    const bool total = graph[id].op == Op::Total;
    schedule.stage.push_back(!steps || !whole ? stage : total ? stage + 1 : stage - 1);
  }
}

/// Step 7.
void add_masks(const Graph& graph, Schedule& schedule) {
  std::map<uint32_t, std::set<NodeId>> masks;  // by sweep
  std::map<uint32_t, ScheduledStage*> opening;
  for (ScheduledStage& stage : schedule.stages) {
    if (!is_of_sweeps(stage.domain)) continue;
    opening.emplace(stage.sweep, &stage);
    const auto read = [&](NodeId id) {
      id = schedule.values.read[id];
      if (is_mask(graph[id].op)) masks[stage.sweep].insert(id);
    };
    for (const Group& group : stage.groups) {
      const auto* fused = std::get_if<FusedGroup>(&group);
      if (fused == nullptr) continue;
      std::ranges::for_each(fused->copies, read);
      for (NodeId id : fused->nodes) std::ranges::for_each(graph[id].operands, read);
    }
  }
  for (const auto& [sweep, ids] : masks) {
    std::vector<Group> groups;
    for (NodeId id : ids) groups.emplace_back(MoveGroup{id});
    std::vector<Group>& first = opening.at(sweep)->groups;
    first.insert(first.begin(), groups.begin(), groups.end());
  }
}

}  // namespace

std::string stage_name(const Graph& graph, const Dependence& dependence,
                       const ScheduledStage& stage) {
  std::string name;
  for (uint32_t recurrence : stage.recurrences) {
    for (uint32_t state : dependence.recurrences[recurrence].states) {
      name += (name.empty() ? "" : ", ") + graph.states[state].name;
    }
  }
  return name;
}

Schedule make_schedule(const Graph& graph, const Dependence& dependence, const Plan& plan,
                       const ScheduleOptions& options) {
  const PassSet& passes = options.passes;
  const bool fuse = passes.has(Pass::Fuse);
  Schedule schedule;
  schedule.numbers = options.numbers;
  schedule.values = find_values(graph, dependence);
  make_stages(graph, dependence, passes.has(Pass::Hoist), schedule);
  if (fuse && passes.has(Pass::Loop)) gather_loops(graph, dependence, schedule);
  for (const auto& [node, stage] : options.homes) schedule.stage[node] = stage;
  if (fuse) absorb_cheap_work(graph, dependence, schedule);
  const bool narrow = plan.dtype != compute_type(plan.dtype);
  const CopyNeeds needs(graph, dependence, schedule, narrow);
  for (uint32_t stage = 0; stage < schedule.stages.size(); ++stage) {
    ScheduledStage& scheduled = schedule.stages[stage];
    scheduled.groups =
        StageScheduler(graph, dependence, schedule, needs, stage, plan.batch, fuse).run();
    if (fuse) sink_values(graph, schedule.values, scheduled);
    if (passes.has(Pass::Merge)) merge_products(scheduled);
    const bool phases = options.in_phases.contains(stage_name(graph, dependence, scheduled));
    if (passes.has(Pass::Epilogue) || phases) fuse_epilogues(graph, schedule.values, scheduled);
    if (passes.has(Pass::Sum)) sum_products(graph, schedule.values, scheduled);
    if (phases) form_phases(graph, schedule, stage);
    if (scheduled.loop) close_loop(scheduled);
  }
  add_masks(graph, schedule);
  find_product_readers(graph, schedule);
  return schedule;
}

}  // namespace rnnc
