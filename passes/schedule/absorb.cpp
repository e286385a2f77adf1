// 1. From last to first: a value that kernels of one recurrence alone use goes there, together with
//    what leads to it alone, if that then loads no more: of what all of it takes, at most one varies
//    over time and is not loaded already; none, where it is not cheap. Else the value alone.
// 2. From first to last: a cheap value that is only stored, and takes all that varies from one
//    recurrence's kernels and from masks, goes there.
#include "passes/schedule/absorb.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <ranges>
#include <set>

namespace rnnc {
namespace {

constexpr size_t kMostValues = 16;  // that go to a recurrence together

class Absorb {
 public:
  Absorb(const Graph& graph, const Dependence& dependence, Schedule& schedule)
      : graph_(graph), dependence_(dependence), schedule_(schedule), values_(schedule.values) {}

  void run() {
    for (auto id = static_cast<NodeId>(graph_.nodes.size()); id-- > 0;) {
      if (!is_of_kernel(id)) continue;
      const auto stage = stage_of_users(id);
      if (!stage) continue;
      for (const NodeId value : values_for(id, *stage)) schedule_.stage[value] = *stage;
    }
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (!is_parallel(id) || !is_cheap(id) || !values_.is_stored[id]) continue;
      if (const auto stage = stage_of_operands(id)) schedule_.stage[id] = *stage;
    }
  }

 private:
  /// Of a time-parallel stage.
  bool is_parallel(NodeId id) const {
    const ScheduledStage& stage = schedule_.stages[schedule_.stage[id]];
    return stage.domain == Domain::Sequence && stage.recurrences.empty();
  }

  bool is_cheap(NodeId id) const {
    return is_sum_or_product(graph_[id].op) || graph_[id].op == Op::Where;
  }

  /// Only kernels need it.
  bool is_of_kernel(NodeId id) const {
    return is_scalar(graph_[id].op) && values_.kind[id] == ValueKind::Fused &&
           !values_.is_stored[id] && is_parallel(id);
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
    return fits ? std::optional(stage) : std::nullopt;
  }

  /// What goes to the stage, whose kernels alone use the value; nothing, if none of it is worth that.
  std::set<NodeId> values_for(NodeId id, uint32_t stage) const {
    for (std::set<NodeId> values : {leading_to(id, stage), {id}}) {
      const bool cheap =
          std::ranges::all_of(values, [this](NodeId value) { return is_cheap(value); });
      const auto brought = brought_by(values, stage);
      if (brought && *brought <= (cheap ? 1 : 0)) return values;
    }
    return {};
  }

  /// The value, and what kernels need for it alone.
  std::set<NodeId> leading_to(NodeId id, uint32_t stage) const {
    std::set<NodeId> values;
    std::set<NodeId, std::greater<>> open = {id};  // users come before what they use
    while (!open.empty() && values.size() < kMostValues) {
      const NodeId value = *open.begin();
      open.erase(open.begin());
      values.insert(value);
      for (NodeId operand : graph_[value].operands) {
        operand = values_.read[operand];
        const auto is_there = [&](NodeId reader) {
          return schedule_.stage[reader] == stage || values.contains(reader);
        };
        if (is_of_kernel(operand) && std::ranges::all_of(values_.readers[operand], is_there)) {
          open.insert(operand);
        }
      }
    }
    return values;
  }

  /// How much that varies over time a stage that computes the values loads that it would not load
  /// without; nothing, if all that they take is the same at every step.
  std::optional<size_t> brought_by(const std::set<NodeId>& values, uint32_t stage) const {
    std::set<NodeId> varying;
    std::set<NodeId> brought;
    for (const NodeId value : values) {
      for (NodeId operand : graph_[value].operands) {
        operand = values_.read[operand];
        if (!varies(operand) || values.contains(operand)) continue;
        varying.insert(operand);
        const bool is_loaded = std::ranges::any_of(values_.readers[operand], [&](NodeId reader) {
          return !values.contains(reader) && values_.kind[reader] == ValueKind::Fused &&
                 schedule_.stage[reader] == stage;
        });
        if (!is_loaded) brought.insert(operand);
      }
    }
    return varying.empty() ? std::nullopt : std::optional(brought.size());
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
