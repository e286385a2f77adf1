// 1. A recurrence of class Linear or Elementwise is a loop if all that its kernel computes, loads
//    of its states and stores to them are rows of one length, and rows of a state array are whole
//    ones: then each element of each state is loaded and stored at one place of the kernel.
// 2. Move into it elementwise values after it that need nothing from later stages, and recurrences
//    that are such loops and use it.
// 3. From last to first, take out again those whose use is neither in the loop nor in memory
//    anyway: where they are used they cost nothing.
// 4. Move into it, from last to first, elementwise values that it alone uses: they are not stored
//    then. Not a sum of two products, which needs no kernel (passes/sums.h).
#include "passes/loops.h"

#include <algorithm>
#include <utility>

namespace rnnc {
namespace {

class Loop {
 public:
  /// `stage` holds one recurrence.
  Loop(const Graph& graph, const Dependence& dependence, Schedule& schedule, uint32_t stage)
      : graph_(graph),
        dependence_(dependence),
        schedule_(schedule),
        values_(schedule.values),
        stage_(stage),
        users_(graph.nodes.size()),
        is_root_(graph.nodes.size(), false),
        stored_(graph.nodes.size(), false) {
    find_users();
  }

  bool fits() {
    const Recurrence& recurrence = this->recurrence();
    if (recurrence.recurrence_class != RecurrenceClass::Linear &&
        recurrence.recurrence_class != RecurrenceClass::Elementwise) {
      return false;
    }
    const auto computed = std::ranges::find_if(
        recurrence.nodes, [this](NodeId id) { return values_.kind[id] == ValueKind::Fused; });
    const NodeId next = graph_.states[recurrence.states[0]].next;
    const Type& type = graph_[computed == recurrence.nodes.end() ? next : *computed].type;
    length_ = element_count(type.shape);
    scalar_ = type.is_scalar();
    return std::ranges::all_of(recurrence.nodes, [this](NodeId id) { return node_fits(id); }) &&
           std::ranges::all_of(recurrence.states, [this](uint32_t s) { return state_fits(s); });
  }

  void gather() {
    take_users();
    take_operands();
  }

 private:
  const Recurrence& recurrence() const {
    return dependence_.recurrences[schedule_.stages[stage_].recurrences[0]];
  }
  bool inside(NodeId id) const { return schedule_.stage[id] == stage_; }
  bool has_length(NodeId id) const {
    const Type& type = graph_[id].type;
    return element_count(type.shape) == length_ && type.is_scalar() == scalar_;
  }

  /// A kernel of the loop has it: computed there, or loaded as a whole row of a state.
  bool is_row(NodeId id) const {
    const Origin& origin = values_.origin[id];
    const bool state = graph_[origin.value].op == Op::State;
    return has_length(id) && origin.offset % length_ == 0 &&
           (state || (origin.value == id && values_.kind[id] == ValueKind::Fused));
  }

  bool node_fits(NodeId id) const {
    switch (values_.kind[id]) {
      case ValueKind::Leaf:
      case ValueKind::View:
        return has_length(id) || is_only_read_by_kernels(id);
      case ValueKind::Spread:
      case ValueKind::Assembly:
        return true;  // whoever reads it is looked at
      case ValueKind::Fused:
        return has_length(id) && operands_fit(id);
      case ValueKind::Product:
      case ValueKind::Moved:
        break;
    }
    return false;
  }

  /// Of this sweep: nothing wants a copy of another length.
  bool is_only_read_by_kernels(NodeId id) const {
    const bool copied = is_root_[id] && inside(id) && !has_length(id);
    return !copied && std::ranges::all_of(users_[id], [this](NodeId user) {
      if (values_.kind[user] == ValueKind::View) return is_only_read_by_kernels(user);
      const bool kernel = values_.kind[user] == ValueKind::Fused;
      return inside(user) || (kernel && !schedule_.is_late(user, stage_));
    });
  }

  bool operands_fit(NodeId id) const {
    return std::ranges::all_of(graph_[id].operands, [this](NodeId operand) {
      operand = values_.read[operand];
      return !inside(values_.origin[operand].value) || is_row(operand);
    });
  }

  bool state_fits(uint32_t state) const {
    const NodeId next = graph_.states[state].next;
    if (values_.kind[next] != ValueKind::Assembly) return piece_fits(next);
    return std::ranges::all_of(graph_[next].operands,
                               [this](NodeId piece) { return piece_fits(piece); });
  }

  bool piece_fits(NodeId id) const {
    const NodeId value = values_.read[id];
    return has_length(id) && (!inside(values_.origin[value].value) || is_row(value));
  }

  // ---- Work around it ----

  void find_users() {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (values_.kind[id] == ValueKind::Spread) continue;
      for (NodeId operand : graph_[id].operands) {
        operand = values_.read[operand];
        users_[operand].push_back(id);
        if (values_.kind[id] != ValueKind::Fused) stored_[operand] = true;
      }
    }
    for (const StateDecl& state : graph_.states) add_root(state.next);
    for (const OutputDecl& output : graph_.outputs) add_root(output.value);
  }

  void add_root(NodeId id) {
    id = values_.read[id];
    is_root_[id] = stored_[id] = true;
  }

  /// An elementwise value of a time-parallel stage of this sweep.
  bool is_movable(NodeId id) const {
    const ScheduledStage& stage = schedule_.stages[schedule_.stage[id]];
    return values_.kind[id] == ValueKind::Fused && !is_reduction(graph_[id].op) &&
           stage.domain != Domain::Once && stage.recurrences.empty() && is_in_sweep(stage);
  }

  bool is_in_sweep(const ScheduledStage& stage) const {
    return stage.sweep == schedule_.stages[stage_].sweep;
  }

  bool is_only_used_here(NodeId id) const {
    return !is_root_[id] &&
           std::ranges::all_of(users_[id], [this](NodeId user) { return inside(user); });
  }

  void take_operands() {
    for (auto id = static_cast<NodeId>(graph_.nodes.size()); id-- > 0;) {
      if (schedule_.stage[id] >= stage_ || !is_movable(id)) continue;
      if (!has_length(id) && !graph_[id].type.is_scalar()) continue;
      if (stored_[id] || is_sum_of_products(id)) continue;
      if (is_only_used_here(id)) schedule_.stage[id] = stage_;
    }
  }

  bool is_sum_of_products(NodeId id) const {
    return graph_[id].op == Op::Add && std::ranges::all_of(graph_[id].operands, [this](NodeId o) {
             return values_.kind[o] == ValueKind::Product;
           });
  }

  void take_users() {
    std::vector<std::pair<NodeId, uint32_t>> moved;  // with the stages they came from
    do {
      for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
        const bool after = schedule_.stage[id] > stage_ && is_movable(id) && has_length(id);
        if (!after || !uses_it(id) || !needs_only_what_is_here(id)) continue;
        moved.emplace_back(id, std::exchange(schedule_.stage[id], stage_));
      }
    } while (take_recurrence());
    const auto here = [this](NodeId id) { return inside(id); };
    std::ranges::sort(moved);
    for (auto value = moved.rbegin(); value != moved.rend(); ++value) {
      const auto& [id, stage] = *value;
      if (!stored_[id] && std::ranges::none_of(users_[id], here)) schedule_.stage[id] = stage;
    }
  }

  /// Any that can be part of the loop now.
  bool take_recurrence() {
    for (uint32_t stage = stage_ + 1; stage < schedule_.stages.size(); ++stage) {
      std::vector<uint32_t>& numbers = schedule_.stages[stage].recurrences;
      if (numbers.empty() || !is_in_sweep(schedule_.stages[stage])) continue;
      Loop other(graph_, dependence_, schedule_, stage);
      if (!other.fits() || other.length_ != length_ || other.scalar_ != scalar_) continue;
      const std::vector<NodeId>& nodes = other.recurrence().nodes;
      const auto uses = [this](NodeId id) { return uses_it(id); };
      const auto needs = [&](NodeId id) { return needs_only_what_is_here(id, stage); };
      if (!std::ranges::any_of(nodes, uses) || !std::ranges::all_of(nodes, needs)) continue;
      for (NodeId id : nodes) schedule_.stage[id] = stage_;
      schedule_.stages[stage_].recurrences.push_back(numbers[0]);
      numbers.clear();
      return true;
    }
    return false;
  }

  bool uses_it(NodeId id) const {
    return std::ranges::any_of(graph_[id].operands, [this](NodeId operand) {
      return inside(values_.origin[values_.read[operand]].value);
    });
  }

  /// `also`: a stage whose values are there too.
  bool needs_only_what_is_here(NodeId id, uint32_t also = 0) const {
    return std::ranges::all_of(graph_[id].operands, [&](NodeId operand) {
      operand = values_.read[operand];
      const NodeId origin = values_.origin[operand].value;
      const uint32_t stage = schedule_.stage[origin];
      if (inside(origin)) return is_row(operand);
      return stage < stage_ || stage == also || is_at_hand(origin);
    });
  }

  /// Whatever the stage.
  bool is_at_hand(NodeId id) const {
    return values_.kind[id] == ValueKind::Leaf && graph_[id].op != Op::State;
  }

  const Graph& graph_;
  const Dependence& dependence_;
  Schedule& schedule_;
  const Values& values_;
  uint32_t stage_;
  int64_t length_ = 1;
  bool scalar_ = false;
  std::vector<std::vector<NodeId>> users_;  // per node: who reads it, itself or spread
  std::vector<bool> is_root_;               // per node: a state or an output takes it
  std::vector<bool> stored_;                // per node: in memory whatever kernels do
};

}  // namespace

void gather_loops(const Graph& graph, const Dependence& dependence, Schedule& schedule) {
  for (uint32_t stage = 0; stage < schedule.stages.size(); ++stage) {
    if (schedule.stages[stage].recurrences.empty()) continue;
    Loop loop(graph, dependence, schedule, stage);
    if (!loop.fits()) continue;
    loop.gather();
    schedule.stages[stage].loop = true;
  }
}

void close_loop(ScheduledStage& stage) {
  RNNC_CHECK(stage.groups.size() == 1 && std::holds_alternative<FusedGroup>(stage.groups[0]),
             "a loop of {} launches", stage.groups.size());
  stage.domain = Domain::Sequence;
}

}  // namespace rnnc
