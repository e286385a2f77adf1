// 1. A recurrence of class Linear or Elementwise is a loop if all that its kernel computes, loads
//    of its states and stores to them are rows of one length, and rows of a state array are whole
//    ones: then each element of each state is loaded and stored at one place of the kernel. It has
//    its states in registers, so it reads them at t - 1 only.
// 2. Move into it elementwise values after it that need nothing from later stages, recurrences that
//    are such loops and use it, and, of linear ones, such as read what it reads.
// 3. From last to first, take out again those whose use is neither in the loop nor in memory
//    anyway: where they are used they cost nothing.
// 4. Move into it elementwise values before it that it alone uses: they are not stored then. And
//    those that use them besides, if these are wanted after the loop only, such as totals over
//    steps, which wait for it. Not a sum of two products, which needs no kernel
//    (passes/schedule/sums.h).
#include "passes/schedule/loops.h"

#include <algorithm>
#include <iterator>
#include <map>
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
        is_next_(graph.nodes.size(), false),
        rows_(schedule.stages.size()) {
    for (const StateDecl& state : graph.states) is_next_[values_.read[state.next]] = true;
    for (uint32_t stage = 0; stage < schedule.stages.size(); ++stage) {
      if (schedule.stages[stage].recurrences.empty()) continue;
      rows_[stage] = LoopCheck(graph, dependence, schedule, stage).run();
    }
  }

  void run() {
    postpone_totals();
    for (stage_ = 0; stage_ < schedule_.stages.size(); ++stage_) {
      if (schedule_.stages[stage_].recurrences.empty() || !rows_[stage_]) continue;
      row_ = *rows_[stage_];
      take_users();
      take_operands();
      schedule_.stages[stage_].loop = true;
    }
    return_totals();
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
    } while (take_recurrence() || take_sibling());
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
      if (!can_be_here(stage)) continue;
      take_stage(stage);
      return true;
    }
    return false;
  }

  /// Of linear recurrences of single states, one that does not use it, but reads what it reads.
  bool take_sibling() {
    if (!is_linear(stage_)) return false;
    const std::set<NodeId> own = steps_read_by(inside_);
    for (uint32_t stage = stage_ + 1; stage < schedule_.stages.size(); ++stage) {
      if (!can_be_here(stage) || !is_linear(stage)) continue;
      const std::set<NodeId> others = steps_read_by(nodes_of(stage));
      if (std::ranges::none_of(others, [&](NodeId id) { return own.contains(id); })) continue;
      take_stage(stage);
      return true;
    }
    return false;
  }

  bool is_linear(uint32_t stage) const {
    return std::ranges::all_of(schedule_.stages[stage].recurrences, [this](uint32_t number) {
      const Recurrence& recurrence = dependence_.recurrences[number];
      return recurrence.recurrence_class == RecurrenceClass::Linear &&
             std::ranges::none_of(recurrence.states, [this](uint32_t state) {
               return graph_.states[state].type.rank() > 1;
             });
    });
  }

  /// Values of steps that these nodes need, but for states and what is inside.
  std::set<NodeId> steps_read_by(const std::vector<NodeId>& nodes) const {
    std::set<NodeId> result;
    for (NodeId id : nodes) {
      for (NodeId operand : graph_[id].operands) {
        const NodeId origin = values_.origin[values_.read[operand]].value;
        const bool varies = dependence_.variation[origin] != Variation::Invariant;
        if (varies && !inside(origin) && graph_[origin].op != Op::State) result.insert(origin);
      }
    }
    return result;
  }

  /// The recurrence of a later stage.
  bool can_be_here(uint32_t stage) const {
    if (schedule_.stages[stage].recurrences.empty()) return false;
    const auto needs = [&](NodeId id) { return needs_only_what_is_here(id, stage); };
    return is_in_sweep(schedule_.stages[stage]) && rows_[stage] == row_ &&
           std::ranges::all_of(nodes_of(stage), needs);
  }

  void take_stage(uint32_t stage) {
    const std::vector<NodeId>& nodes = nodes_of(stage);
    for (NodeId id : nodes) schedule_.stage[id] = stage_;
    std::vector<uint32_t>& numbers = schedule_.stages[stage].recurrences;
    schedule_.stages[stage_].recurrences.push_back(numbers[0]);
    numbers.clear();
    inside_.insert(inside_.end(), nodes.begin(), nodes.end());
    for (NodeId id : nodes) look_at_users(id);
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
    find_followers();
    std::set<NodeId> next;
    const auto look_around = [&](NodeId id) {
      for (NodeId operand : graph_[id].operands) next.insert(values_.read[operand]);
    };
    std::ranges::for_each(inside_, look_around);
    while (!next.empty()) {
      const NodeId id = next.extract(std::prev(next.end())).value();
      if (inside(id) || !can_follow_[id]) continue;
      schedule_.stage[id] = stage_;
      look_around(id);
      next.insert(values_.readers[id].begin(), values_.readers[id].end());
    }
  }

  /// Which earlier values could as well be computed here: those whose readers all come later, are
  /// inside, or could be, too.
  void find_followers() {
    can_follow_.assign(graph_.nodes.size(), false);
    for (NodeId id = static_cast<NodeId>(graph_.nodes.size()); id-- > 0;) {
      const bool fits = has_length(id) || (graph_[id].type.is_scalar() && !values_.is_stored[id]);
      if (schedule_.stage[id] >= stage_ || !is_movable(id) || !fits) continue;
      if (is_next_[id] || is_sum_of_products(id)) continue;
      can_follow_[id] = std::ranges::all_of(values_.readers[id], [this](NodeId user) {
        return inside(user) || can_follow_[user] || is_postponed(user);
      });
    }
  }

  bool is_postponed(NodeId id) const {
    return graph_[id].op == Op::Total && schedule_.stage[id] > stage_;
  }

  bool is_sum_of_products(NodeId id) const {
    return graph_[id].op == Op::Add && std::ranges::all_of(graph_[id].operands, [this](NodeId o) {
             return values_.kind[o] == ValueKind::Product;
           });
  }

  // ---- Totals ----

  /// Behind all recurrences of their sweep, so that loops may compute what they add up.
  void postpone_totals() {
    std::map<uint32_t, uint32_t> last;  // by sweep: of its stages that are no recurrence
    for (uint32_t i = 0; i < schedule_.stages.size(); ++i) {
      const ScheduledStage& stage = schedule_.stages[i];
      if (is_of_whole_sequences(stage)) last[stage.sweep] = i;
    }
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const uint32_t own = schedule_.stage[id];
      if (graph_[id].op != Op::Total || !is_of_whole_sequences(schedule_.stages[own])) continue;
      schedule_.stage[id] = last.at(schedule_.stages[own].sweep);
      postponed_.emplace_back(id, own);
    }
  }

  static bool is_of_whole_sequences(const ScheduledStage& stage) {
    return stage.domain == Domain::Sequence && stage.recurrences.empty();
  }

  /// But for those of which a loop has come to compute something.
  void return_totals() {
    for (const auto& [id, own] : postponed_) {
      const auto is_there = [&, &before = own](NodeId operand) {
        return schedule_.stage[values_.origin[values_.read[operand]].value] <= before;
      };
      if (std::ranges::all_of(graph_[id].operands, is_there)) schedule_.stage[id] = own;
    }
  }

  const Graph& graph_;
  const Dependence& dependence_;
  Schedule& schedule_;
  const Values& values_;
  std::vector<std::pair<NodeId, uint32_t>> postponed_;  // totals, with the stages they came from
  std::vector<bool> is_next_;                           // per node: a state's next value
  std::vector<std::optional<LoopRow>> rows_;            // per stage: none if it is no loop
  // Of the loop that is made:
  uint32_t stage_ = 0;
  LoopRow row_;
  std::vector<NodeId> inside_;
  std::set<NodeId> users_;          // of what is inside, to be looked at
  std::set<uint32_t> recurrences_;  // likewise: stages
  std::vector<bool> can_follow_;    // per node
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
