// 1. From last to first: a cheap value that kernels of one recurrence alone use goes there, if that
//    then loads no more: at most one of its operands varies over time and is not loaded already.
// 2. From first to last: a cheap value that is only stored, and takes all that varies from one
//    recurrence's kernels and from masks, goes there.
#include "passes/schedule/absorb.h"

#include <algorithm>
#include <optional>
#include <set>

namespace rnnc {
namespace {

class Absorb {
 public:
  Absorb(const Graph& graph, const Dependence& dependence, Schedule& schedule)
      : graph_(graph), dependence_(dependence), schedule_(schedule), values_(schedule.values) {}

  void run() {
    for (auto id = static_cast<NodeId>(graph_.nodes.size()); id-- > 0;) {
      if (!is_movable(id) || values_.is_stored[id]) continue;
      if (const auto stage = stage_of_users(id)) schedule_.stage[id] = *stage;
    }
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (!is_movable(id) || !values_.is_stored[id]) continue;
      if (const auto stage = stage_of_operands(id)) schedule_.stage[id] = *stage;
    }
  }

 private:
  /// Of a time-parallel stage, and cheap.
  bool is_movable(NodeId id) const {
    const ScheduledStage& stage = schedule_.stages[schedule_.stage[id]];
    if (stage.domain != Domain::Sequence || !stage.recurrences.empty()) return false;
    switch (graph_[id].op) {
      case Op::Neg:
      case Op::Add:
      case Op::Sub:
      case Op::Mul:
      case Op::Where:
        return true;
      default:
        return false;
    }
  }

  bool is_recurrence(uint32_t stage) const {
    return !schedule_.stages[stage].recurrences.empty() && !schedule_.stages[stage].loop;
  }

  bool varies(NodeId id) const {
    return dependence_.variation[values_.origin[id].value] != Variation::Invariant;
  }

  std::optional<uint32_t> stage_of_users(NodeId id) const {
    if (values_.readers[id].empty()) return {};
    const uint32_t stage = schedule_.stage[values_.readers[id][0]];
    const auto there = [&](NodeId user) { return schedule_.stage[user] == stage; };
    const bool fits = is_recurrence(stage) && std::ranges::all_of(values_.readers[id], there) &&
                      schedule_.sweep_of(id) == schedule_.stages[stage].sweep;
    return fits && brings_at_most_one(id, stage) ? std::optional(stage) : std::nullopt;
  }

  /// Whether a stage that computes the value loads at most one operand that it would not without.
  bool brings_at_most_one(NodeId id, uint32_t stage) const {
    std::set<NodeId> varying;
    std::set<NodeId> brought;
    for (NodeId operand : graph_[id].operands) {
      operand = values_.read[operand];
      if (!varies(operand)) continue;
      varying.insert(operand);
      const bool is_loaded = std::ranges::any_of(values_.readers[operand], [&](NodeId reader) {
        return reader != id && values_.kind[reader] == ValueKind::Fused &&
               schedule_.stage[reader] == stage;
      });
      if (!is_loaded) brought.insert(operand);
    }
    return !varying.empty() && brought.size() <= 1;
  }

  std::optional<uint32_t> stage_of_operands(NodeId id) const {
    const auto kernel = [this](NodeId user) { return values_.kind[user] == ValueKind::Fused; };
    if (std::ranges::any_of(values_.readers[id], kernel)) return {};
    std::optional<uint32_t> stage;
    for (NodeId operand : graph_[id].operands) {
      operand = values_.read[operand];
      if (!varies(operand) || is_mask(graph_[operand].op)) continue;
      const uint32_t its = schedule_.stage[operand];
      const bool computed = values_.kind[operand] == ValueKind::Fused && is_recurrence(its) &&
                            graph_[operand].type == graph_[id].type;
      if (!computed || stage.value_or(its) != its) return {};
      stage = its;
    }
    if (stage && schedule_.sweep_of(id) != schedule_.stages[*stage].sweep) return {};
    return stage;
  }

  const Graph& graph_;
  const Dependence& dependence_;
  Schedule& schedule_;
  const Values& values_;
};

}  // namespace

void absorb_cheap_work(const Graph& graph, const Dependence& dependence, Schedule& schedule) {
  Absorb(graph, dependence, schedule).run();
}

}  // namespace rnnc
