// 1. In order of execution, for each group: which recurrences it needs, itself or by what it reads.
// 2. From each recurrence go down through those just before it. What it reads of one, or of what is
//    made of one, must be results of products that no one else reads, whose left operands that
//    recurrence or another one stores. At the first that it reads otherwise the way ends.
// 3. What else it reads, and is made between them, needs none of them: that goes ahead.
#include "passes/schedule/stacks.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "passes/schedule/group_values.h"

namespace rnnc {
namespace {

bool is_recurrence(const ScheduledStage& stage) {
  return stage.domain == Domain::Step && !stage.recurrences.empty();
}

NodeId left_of(const Group& group) {
  const auto* product = std::get_if<ProductGroup>(&group);
  return product == nullptr ? kNoNode : product->left;
}

class StackFinder {
 public:
  StackFinder(const Graph& graph, Schedule& schedule)
      : graph_(graph), schedule_(schedule), values_(schedule.values) {}

  void run() {
    for (uint32_t stage = 0; stage < schedule_.stages.size(); ++stage) {
      for (size_t group = 0; group < group_count(stage); ++group) add({stage, group});
      if (is_recurrence(schedule_.stages[stage])) find_stack(stage);
    }
  }

 private:
  using Stages = std::set<uint32_t>;

  size_t group_count(uint32_t stage) const { return schedule_.stages[stage].groups.size(); }
  const Group& group_at(GroupPlace place) const {
    return schedule_.stages[place.stage].groups[place.group];
  }

  // ---- What groups make and read ----

  /// The nodes that a value lies in memory as: those of its pieces, and of what it is a part of.
  void add_computed(NodeId id, std::set<NodeId>& computed, std::set<NodeId>& seen) const {
    if (!seen.insert(id).second) return;
    const Node& node = graph_[id];
    switch (values_.kind[id]) {
      case ValueKind::Leaf:
        if (node.op == Op::State) add_computed(graph_.states[node.decl].next, computed, seen);
        break;
      case ValueKind::View:
        add_computed(values_.origin[id].value, computed, seen);
        break;
      case ValueKind::Spread:
      case ValueKind::Assembly:
        for (NodeId operand : node.operands) add_computed(operand, computed, seen);
        break;
      case ValueKind::Fused:
      case ValueKind::Product:
      case ValueKind::Moved:
        computed.insert(id);
        break;
    }
  }

  std::set<NodeId> computed_for(const std::vector<NodeId>& read) const {
    std::set<NodeId> computed, seen;
    for (NodeId id : read) add_computed(id, computed, seen);
    return computed;
  }

  /// Or its move.
  std::vector<NodeId> read_by_kernel(GroupPlace place) const {
    std::vector<NodeId> read = operands_of(graph_, group_at(place));
    const std::vector<NodeId> copied = copied_by(group_at(place));
    read.insert(read.end(), copied.begin(), copied.end());
    return read;
  }

  std::set<NodeId> computed_for(GroupPlace place) const {
    std::vector<NodeId> read = read_by_kernel(place);
    const std::vector<NodeId> lefts = multiplied_by(group_at(place));
    read.insert(read.end(), lefts.begin(), lefts.end());
    return computed_for(read);
  }

  // ---- Step 1 ----

  void add(GroupPlace place) {
    if (is_time_parallel(schedule_.stages[place.stage])) {
      Stages needs;
      for (NodeId id : computed_for(place)) needs.merge(needs_of(id));
      needs_.emplace(place, std::move(needs));
    }
    std::set<NodeId> made = computed_for(copied_by(group_at(place)));
    for (NodeId id : made_by(group_at(place))) made.insert(id);
    for (NodeId id : made) makers_[id].push_back(place);
  }

  /// The recurrence that computes it, or those that its makers need.
  Stages needs_of(NodeId id) const {
    if (!schedule_.stages[schedule_.stage[id]].recurrences.empty()) return {schedule_.stage[id]};
    Stages needs;
    for (GroupPlace maker : makers_of(id)) {
      const auto found = needs_.find(maker);
      if (found != needs_.end()) needs.insert(found->second.begin(), found->second.end());
    }
    return needs;
  }

  bool copies(GroupPlace group, NodeId id) const {
    return computed_for(copied_by(group_at(group))).contains(id);
  }

  /// Those that time-parallel groups which copy it, as a part of a vector that is read, need for
  /// whatever else they make.
  Stages needs_of_copies(NodeId id) const {
    Stages needs;
    for (GroupPlace maker : makers_of(id)) {
      const auto found = needs_.find(maker);
      if (found == needs_.end() || !copies(maker, id)) continue;
      needs.insert(found->second.begin(), found->second.end());
    }
    return needs;
  }

  const std::vector<GroupPlace>& makers_of(NodeId id) const {
    static const std::vector<GroupPlace> kNone;
    const auto found = makers_.find(id);
    return found == makers_.end() ? kNone : found->second;
  }

  // ---- Steps 2 and 3 ----

  void find_stack(uint32_t stage) {
    ScheduledStack& stack = schedule_.stages[stage].stack;
    std::vector<GroupPlace> products;  // of what recurrences store, that may be the stage's own
    std::set<NodeId> others;           // values, but for results of these
    Stages blocked;                    // that cannot be below it
    for (size_t group = 0; group < group_count(stage); ++group) {
      const GroupPlace place{stage, group};
      for (NodeId id : computed_for(read_by_kernel(place))) {
        if (schedule_.stage[id] == stage) continue;
        if (take_products(id, stage, products)) continue;
        blocked.merge(needs_of(id));
        blocked.merge(needs_of_copies(id));
        others.insert(id);
      }
      for (NodeId id : computed_for(multiplied_by(group_at(place)))) {
        const uint32_t from = schedule_.stage[id];
        if (!schedule_.stages[from].recurrences.empty()) continue;  // it waits for that step
        blocked.merge(needs_of(id));
        others.insert(id);
      }
    }
    stack.below = way_down(stage, blocked);
    if (stack.below.empty()) {
      stack = {};
      return;
    }
    add_ahead(std::move(others), stack);
    // Products of recurrences that cannot be below it go ahead.
    std::ranges::copy_if(products, std::back_inserter(stack.ahead), [&](GroupPlace place) {
      const uint32_t from = *recurrence_of(left_of(group_at(place)));
      return std::ranges::count(stack.below, from) == 0 && is_above_lowest(place, stack);
    });
  }

  bool is_above_lowest(GroupPlace place, const ScheduledStack& stack) const {
    return place.stage > stack.below.back() && is_time_parallel(schedule_.stages[place.stage]);
  }

  /// Stages just before it, as far as they are recurrences that are not blocked and what is
  /// time-parallel.
  std::vector<uint32_t> way_down(uint32_t stage, const Stages& blocked) const {
    std::vector<uint32_t> way;
    for (uint32_t below = stage; below-- > 0;) {
      const ScheduledStage& next = schedule_.stages[below];
      if (next.sweep != schedule_.stages[stage].sweep || blocked.contains(below)) break;
      if (is_recurrence(next)) {
        way.push_back(below);
      } else if (!is_time_parallel(next)) {
        break;
      }
    }
    return way;
  }

  /// Adds the products that alone make the value, of what recurrences store, if they may be the
  /// stage's own.
  bool take_products(NodeId id, uint32_t stage, std::vector<GroupPlace>& products) const {
    std::vector<GroupPlace> makers = makers_of(id);
    std::erase_if(makers, [&](GroupPlace maker) { return copies(maker, id); });
    const auto may_be_own = [&](GroupPlace maker) {
      const auto readers = schedule_.product_readers.find(maker);
      return readers != schedule_.product_readers.end() && readers->second == Stages{stage} &&
             recurrence_of(left_of(group_at(maker)));
    };
    if (makers.empty() || !std::ranges::all_of(makers, may_be_own)) return false;
    for (GroupPlace maker : makers) {
      if (std::ranges::count(products, maker) == 0) products.push_back(maker);
    }
    return true;
  }

  /// The stage of the recurrence that stores all of a left operand.
  std::optional<uint32_t> recurrence_of(NodeId left) const {
    Stages from;
    for (NodeId id : computed_for(std::vector<NodeId>{left})) from.insert(schedule_.stage[id]);
    const bool is_one = from.size() == 1 && is_recurrence(schedule_.stages[*from.begin()]);
    return is_one ? std::optional(*from.begin()) : std::nullopt;
  }

  /// What is made above the lowest of the stages.
  void add_ahead(std::set<NodeId> values, ScheduledStack& stack) const {
    while (!values.empty()) {
      const NodeId id = values.extract(values.begin()).value();
      for (GroupPlace maker : makers_of(id)) {
        const bool is_known = std::ranges::count(stack.ahead, maker) > 0;
        if (is_known || !is_above_lowest(maker, stack)) continue;
        stack.ahead.push_back(maker);
        values.merge(computed_for(maker));
      }
    }
  }

  const Graph& graph_;
  Schedule& schedule_;
  const Values& values_;
  std::map<NodeId, std::vector<GroupPlace>> makers_;  // by value
  std::map<GroupPlace, Stages> needs_;                // of time-parallel groups: recurrences
};

}  // namespace

void find_stacks(const Graph& graph, Schedule& schedule) {
  if (std::ranges::count_if(schedule.stages, is_recurrence) > 1) StackFinder(graph, schedule).run();
}

}  // namespace rnnc
