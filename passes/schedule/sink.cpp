// 1. Find each value's users: nodes of the stage's kernels, and the first product or move that
//    reads it. What the stage reads from memory as part of another value stays where it is: a
//    state's value read back, what a view shows, pieces of an assembly.
// 2. From the last value to the first: if its first user is in a later kernel over rows of the same
//    shape, move it there; its operands may follow in their turn. It stays if two or more of its
//    operands must stay: they would be stored in its place.
// 3. Collect the kernels anew and drop the empty ones.
#include "passes/schedule/sink.h"

#include <algorithm>
#include <map>
#include <set>

namespace rnnc {
namespace {

constexpr size_t kNever = SIZE_MAX;

class Sink {
 public:
  Sink(const Graph& graph, const Values& values, ScheduledStage& stage)
      : graph_(graph), values_(values), stage_(stage) {}

  void run() {
    for (size_t g = 0; g < stage_.groups.size(); ++g) {
      if (const auto* fused = std::get_if<FusedGroup>(&stage_.groups[g])) {
        for (NodeId id : fused->nodes) group_of_[id] = g;
      }
    }
    find_users();
    for (auto value = group_of_.rbegin(); value != group_of_.rend(); ++value) {
      value->second = best_group(value->first, value->second);
    }
    collect();
  }

 private:
  void find_users() {
    for (const auto& [id, group] : group_of_) {
      for (NodeId operand : graph_[id].operands) {
        users_[values_.read[operand]].push_back(id);
        pin(values_.read[operand]);
      }
    }
    for (size_t g = 0; g < stage_.groups.size(); ++g) {
      if (const auto* fused = std::get_if<FusedGroup>(&stage_.groups[g])) {
        for (NodeId id : fused->copies) {
          pin(values_.read[id]);
          if (values_.read[id] != id) pinned_.insert(values_.read[id]);
        }
      } else if (const auto* move = std::get_if<MoveGroup>(&stage_.groups[g])) {
        for (NodeId operand : graph_[move->node].operands) launch_reads(operand, g);
      } else {
        const auto& product = std::get<ProductGroup>(stage_.groups[g]);
        launch_reads(product.left, g);
        for (const ProductGroup::Member& member : product.members) launch_reads(member.weight, g);
      }
    }
  }

  /// A product or a move.
  void launch_reads(NodeId operand, size_t group) {
    pin(operand);
    first_launch_.emplace(operand, group);
  }

  /// What has to be in memory before `id` can be read.
  void pin(NodeId id) {
    NodeId origin = values_.origin[id].value;
    if (origin != id) pinned_.insert(origin);
    if (graph_[origin].op == Op::State && stage_.domain == Domain::Sequence) {
      origin = graph_.states[graph_[origin].decl].next;
      pinned_.insert(origin);
    }
    if (values_.kind[origin] != ValueKind::Assembly) return;
    pinned_.insert(graph_[origin].operands.begin(), graph_[origin].operands.end());
  }

  /// The first group that uses a value, not counting one of its users.
  size_t first_use(NodeId id, NodeId except = kNoNode) const {
    const auto launch = first_launch_.find(id);
    size_t first = launch == first_launch_.end() ? kNever : launch->second;
    const auto users = users_.find(id);
    if (users == users_.end()) return first;
    for (NodeId user : users->second) {
      if (user != except) first = std::min(first, group_of_.at(user));
    }
    return first;
  }

  size_t best_group(NodeId id, size_t from) const {
    const size_t to = first_use(id);
    if (to == kNever || to <= from || pinned_.contains(id)) return from;
    const auto* source = std::get_if<FusedGroup>(&stage_.groups[from]);
    const auto* target = std::get_if<FusedGroup>(&stage_.groups[to]);
    if (target == nullptr || target->rows != source->rows) return from;
    const bool flexible = graph_[id].type.is_scalar() && !is_reduction(graph_[id].op);
    if (!flexible && target->length != source->length) return from;

    std::set<NodeId> operands;
    for (NodeId operand : graph_[id].operands) operands.insert(values_.read[operand]);
    const auto stays = [&](NodeId operand) {
      return group_of_.contains(operand) && first_use(operand, id) <= from;
    };
    return std::ranges::count_if(operands, stays) > 1 ? from : to;
  }

  void collect() {
    for (Group& group : stage_.groups) {
      if (auto* fused = std::get_if<FusedGroup>(&group)) fused->nodes.clear();
    }
    for (const auto& [id, group] : group_of_) {
      std::get<FusedGroup>(stage_.groups[group]).nodes.push_back(id);
    }
    std::erase_if(stage_.groups, [](const Group& group) {
      const auto* fused = std::get_if<FusedGroup>(&group);
      return fused != nullptr && fused->nodes.empty() && fused->copies.empty();
    });
  }

  const Graph& graph_;
  const Values& values_;
  ScheduledStage& stage_;
  std::map<NodeId, size_t> group_of_;  // values of this stage's kernels, ascending
  std::map<NodeId, std::vector<NodeId>> users_;
  std::map<NodeId, size_t> first_launch_;
  std::set<NodeId> pinned_;
};

}  // namespace

void sink_values(const Graph& graph, const Values& values, ScheduledStage& stage) {
  Sink(graph, values, stage).run();
}

}  // namespace rnnc
