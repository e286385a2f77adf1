// 1. A recurrence of class Linear or Elementwise is a loop if all that its kernel computes, loads
//    of its states and stores to them are rows of one length, and rows of a state array are whole
//    ones: then each element of each state is loaded and stored at one place of the kernel. It has
//    its states in registers, so it reads them at t - 1 only.
// 2. Move into it elementwise values after it that need nothing from later stages, and recurrences
//    that are such loops and use it.
// 3. From last to first, take out again those whose use is neither in the loop nor in memory
//    anyway: where they are used they cost nothing.
// 4. Move into it, from last to first, elementwise values that it alone uses: they are not stored
//    then. Not a sum of two products, which needs no kernel (passes/schedule/sums.h).
#include "passes/schedule/loops.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

namespace rnnc {
namespace {

/// What the rows of a loop's values have in common.
struct LoopRow {
  int64_t length = 1;
  bool scalar = false;
  friend bool operator==(const LoopRow&, const LoopRow&) = default;
};

bool has_row(const Graph& graph, NodeId id, const LoopRow& row) {
  const Type& type = graph[id].type;
  return element_count(type.shape) == row.length && type.is_scalar() == row.scalar;
}

/// A kernel of the loop has it: computed there, or loaded as a whole row of a state.
bool is_row_of(const Graph& graph, const Values& values, NodeId id, const LoopRow& row) {
  const Origin& origin = values.origin[id];
  const bool state = graph[origin.value].op == Op::State;
  return has_row(graph, id, row) && origin.offset % row.length == 0 &&
         (state || (origin.value == id && values.kind[id] == ValueKind::Fused));
}

/// Whether the recurrence of a stage is a loop.
class LoopCheck {
 public:
  LoopCheck(const Graph& graph, const Dependence& dependence, const Schedule& schedule,
            uint32_t stage)
      : graph_(graph),
        schedule_(schedule),
        values_(schedule.values),
        stage_(stage),
        recurrence_(dependence.recurrences[schedule.stages[stage].recurrences[0]]) {}

  /// Of which rows; none if it is not.
  std::optional<LoopRow> run() {
    if (recurrence_.recurrence_class != RecurrenceClass::Linear &&
        recurrence_.recurrence_class != RecurrenceClass::Elementwise) {
      return std::nullopt;
    }
    const auto computed = std::ranges::find_if(
        recurrence_.nodes, [this](NodeId id) { return values_.kind[id] == ValueKind::Fused; });
    const NodeId next = graph_.states[recurrence_.states[0]].next;
    const Type& type = graph_[computed == recurrence_.nodes.end() ? next : *computed].type;
    row_ = {element_count(type.shape), type.is_scalar()};
    const bool fits =
        std::ranges::all_of(recurrence_.nodes, [this](NodeId id) { return node_fits(id); }) &&
        std::ranges::all_of(recurrence_.states, [this](uint32_t s) { return state_fits(s); });
    return fits ? std::optional(row_) : std::nullopt;
  }

 private:
  bool inside(NodeId id) const { return schedule_.stage[id] == stage_; }
  bool has_length(NodeId id) const { return has_row(graph_, id, row_); }
  bool is_row(NodeId id) const { return is_row_of(graph_, values_, id, row_); }

  bool node_fits(NodeId id) const {
    switch (values_.kind[id]) {
      case ValueKind::Leaf:
        if (graph_[id].op == Op::State && graph_[id].delay > 1) return false;
        [[fallthrough]];
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
    const bool copied = values_.is_result[id] && inside(id) && !has_length(id);
    return !copied && std::ranges::all_of(values_.readers[id], [this](NodeId user) {
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

  const Graph& graph_;
  const Schedule& schedule_;
  const Values& values_;
  uint32_t stage_;
  const Recurrence& recurrence_;
  LoopRow row_;
};

/// Makes loops of recurrences, the earlier ones first.
class Loops {
 public:
  Loops(const Graph& graph, const Dependence& dependence, Schedule& schedule)
      : graph_(graph),
        dependence_(dependence),
        schedule_(schedule),
        values_(schedule.values),
        rows_(schedule.stages.size()) {
    for (uint32_t stage = 0; stage < schedule.stages.size(); ++stage) {
      if (schedule.stages[stage].recurrences.empty()) continue;
      rows_[stage] = LoopCheck(graph, dependence, schedule, stage).run();
    }
  }

  void run() {
    for (stage_ = 0; stage_ < schedule_.stages.size(); ++stage_) {
      if (schedule_.stages[stage_].recurrences.empty() || !rows_[stage_]) continue;
      row_ = *rows_[stage_];
      take_users();
      take_operands();
      schedule_.stages[stage_].loop = true;
    }
  }

 private:
  const std::vector<NodeId>& nodes_of(uint32_t stage) const {
    return dependence_.recurrences[schedule_.stages[stage].recurrences[0]].nodes;
  }
  bool inside(NodeId id) const { return schedule_.stage[id] == stage_; }
  bool has_length(NodeId id) const { return has_row(graph_, id, row_); }

  /// An elementwise value of a time-parallel stage of this sweep.
  bool is_movable(NodeId id) const {
    const ScheduledStage& stage = schedule_.stages[schedule_.stage[id]];
    return values_.kind[id] == ValueKind::Fused && !is_reduction(graph_[id].op) &&
           is_of_sweeps(stage.domain) && stage.recurrences.empty() && is_in_sweep(stage);
  }

  bool is_in_sweep(const ScheduledStage& stage) const {
    return stage.sweep == schedule_.stages[stage_].sweep;
  }

  // ---- What uses it ----

  void take_users() {
    inside_ = nodes_of(stage_);
    for (NodeId id : inside_) look_at_users(id);
    std::vector<std::pair<NodeId, uint32_t>> moved;  // with the stages they came from
    do {
      while (!users_.empty()) {
        const NodeId id = users_.extract(users_.begin()).value();
        const bool after = schedule_.stage[id] > stage_ && is_movable(id) && has_length(id);
        if (!after || !needs_only_what_is_here(id)) continue;
        moved.emplace_back(id, std::exchange(schedule_.stage[id], stage_));
        look_at_users(id);
      }
    } while (take_recurrence());
    const auto here = [this](NodeId id) { return inside(id); };
    std::ranges::sort(moved);
    for (auto value = moved.rbegin(); value != moved.rend(); ++value) {
      const auto& [id, stage] = *value;
      if (!values_.is_stored[id] && std::ranges::none_of(values_.readers[id], here)) {
        schedule_.stage[id] = stage;
      } else {
        inside_.push_back(id);
      }
    }
  }

  /// Those of a value that has come in may follow.
  void look_at_users(NodeId id) {
    for (NodeId user : values_.readers[id]) {
      const uint32_t stage = schedule_.stage[user];
      if (values_.kind[user] == ValueKind::View) look_at_users(user);
      if (stage > stage_ && !schedule_.stages[stage].recurrences.empty()) {
        recurrences_.insert(stage);
      } else {
        users_.insert(user);
      }
    }
  }

  /// Any that can be part of the loop now.
  bool take_recurrence() {
    while (!recurrences_.empty()) {
      const uint32_t stage = recurrences_.extract(recurrences_.begin()).value();
      std::vector<uint32_t>& numbers = schedule_.stages[stage].recurrences;
      if (numbers.empty() || !is_in_sweep(schedule_.stages[stage])) continue;
      const std::vector<NodeId>& nodes = nodes_of(stage);
      const auto needs = [&](NodeId id) { return needs_only_what_is_here(id, stage); };
      if (rows_[stage] != row_ || !std::ranges::all_of(nodes, needs)) continue;
      for (NodeId id : nodes) schedule_.stage[id] = stage_;
      schedule_.stages[stage_].recurrences.push_back(numbers[0]);
      numbers.clear();
      inside_.insert(inside_.end(), nodes.begin(), nodes.end());
      for (NodeId id : nodes) look_at_users(id);
      return true;
    }
    return false;
  }

  /// `also`: a stage whose values are there too.
  bool needs_only_what_is_here(NodeId id, uint32_t also = 0) const {
    return std::ranges::all_of(graph_[id].operands, [&](NodeId operand) {
      operand = values_.read[operand];
      const NodeId origin = values_.origin[operand].value;
      const uint32_t stage = schedule_.stage[origin];
      if (inside(origin)) return is_row_of(graph_, values_, operand, row_);
      return stage < stage_ || stage == also || is_at_hand(origin);
    });
  }

  /// Whatever the stage.
  bool is_at_hand(NodeId id) const {
    return values_.kind[id] == ValueKind::Leaf && graph_[id].op != Op::State;
  }

  // ---- What it uses ----

  void take_operands() {
    std::set<NodeId> operands;
    const auto look_at_operands = [&](NodeId id) {
      for (NodeId operand : graph_[id].operands) operands.insert(values_.read[operand]);
    };
    std::ranges::for_each(inside_, look_at_operands);
    while (!operands.empty()) {
      const NodeId id = operands.extract(std::prev(operands.end())).value();
      if (schedule_.stage[id] >= stage_ || !is_movable(id)) continue;
      if (!has_length(id) && !graph_[id].type.is_scalar()) continue;
      if (values_.is_stored[id] || is_sum_of_products(id) || !is_only_used_here(id)) continue;
      schedule_.stage[id] = stage_;
      look_at_operands(id);
    }
  }

  bool is_only_used_here(NodeId id) const {
    return !values_.is_result[id] &&
           std::ranges::all_of(values_.readers[id], [this](NodeId user) { return inside(user); });
  }

  bool is_sum_of_products(NodeId id) const {
    return graph_[id].op == Op::Add && std::ranges::all_of(graph_[id].operands, [this](NodeId o) {
             return values_.kind[o] == ValueKind::Product;
           });
  }

  const Graph& graph_;
  const Dependence& dependence_;
  Schedule& schedule_;
  const Values& values_;
  std::vector<std::optional<LoopRow>> rows_;  // per stage: none if it is no loop
  // Of the loop that is made:
  uint32_t stage_ = 0;
  LoopRow row_;
  std::vector<NodeId> inside_;
  std::set<NodeId> users_;          // of what is inside, to be looked at
  std::set<uint32_t> recurrences_;  // likewise: stages
};

}  // namespace

void gather_loops(const Graph& graph, const Dependence& dependence, Schedule& schedule) {
  Loops(graph, dependence, schedule).run();
}

void close_loop(ScheduledStage& stage) {
  RNNC_CHECK(stage.groups.size() == 1 && std::holds_alternative<FusedGroup>(stage.groups[0]),
             "a loop of {} launches", stage.groups.size());
  stage.domain = Domain::Sequence;
}

}  // namespace rnnc
