// 1. Find each value's users: nodes of the stage's kernels, and the first product that reads it. A
//    state's value that the stage reads back stays where it is.
// 2. From the last value to the first: if its first user is in a later kernel over rows of the same
//    shape, move it there; its operands may follow in their turn. It stays if two or more of its
//    operands must stay: they would be stored in its place.
// 3. Collect the kernels anew and drop the empty ones.
#include "passes/sink.h"

#include <algorithm>
#include <map>
#include <set>

namespace rnnc {
namespace {

constexpr size_t kNever = SIZE_MAX;

class Sink {
 public:
  Sink(const Graph& graph, ScheduledStage& stage) : graph_(graph), stage_(stage) {}

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
        users_[operand].push_back(id);
        pin(operand);
      }
    }
    for (size_t g = 0; g < stage_.groups.size(); ++g) {
      if (const auto* fused = std::get_if<FusedGroup>(&stage_.groups[g])) {
        for (NodeId id : fused->copies) pin(id);
        continue;
      }
      const auto& product = std::get<ProductGroup>(stage_.groups[g]);
      pin(product.left);
      first_product_.emplace(product.left, g);
      for (const ProductGroup::Member& member : product.members) {
        first_product_.emplace(member.weight, g);
      }
    }
  }

  /// What the stage reads of a state at earlier steps, an earlier launch must have stored.
  void pin(NodeId operand) {
    const Node& node = graph_[operand];
    if (node.op == Op::State && stage_.domain == Domain::Sequence) {
      pinned_.insert(graph_.states[node.decl].next);
    }
  }

  /// The first group that uses a value, not counting one of its users.
  size_t first_use(NodeId id, NodeId except = kNoNode) const {
    const auto product = first_product_.find(id);
    size_t first = product == first_product_.end() ? kNever : product->second;
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

    const std::set<NodeId> operands(graph_[id].operands.begin(), graph_[id].operands.end());
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
  ScheduledStage& stage_;
  std::map<NodeId, size_t> group_of_;  // values of this stage's kernels, ascending
  std::map<NodeId, std::vector<NodeId>> users_;
  std::map<NodeId, size_t> first_product_;
  std::set<NodeId> pinned_;
};

}  // namespace

void sink_values(const Graph& graph, ScheduledStage& stage) {
  Sink(graph, stage).run();
}

}  // namespace rnnc
