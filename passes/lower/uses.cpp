#include "passes/lower/uses.h"

#include <algorithm>
#include <set>

namespace rnnc {
namespace {

class UseFinder {
 public:
  UseFinder(const Graph& graph, const Schedule& schedule, const std::vector<After>& after)
      : graph_(graph),
        schedule_(schedule),
        values_(schedule.values),
        after_(after),
        uses_(graph.nodes.size()) {}

  std::vector<Uses> run() {
    for (uint32_t stage = 0; stage < schedule_.stages.size(); ++stage) {
      for (const Group& group : schedule_.stages[stage].groups) {
        std::visit([&](const auto& g) { find_uses(stage, g); }, group);
      }
    }
    for (const StateDecl& state : graph_.states) load(0, state.init);
    for (NodeId id = static_cast<NodeId>(graph_.nodes.size()); id-- > 0;) find_source_uses(id);
    return std::move(uses_);
  }

 private:
  void find_uses(uint32_t stage, const ProductGroup& group) {
    multiply(stage, group.left);
    for (const ProductGroup::Member& member : group.members) multiply(stage, member.weight);
  }

  void find_uses(uint32_t stage, const FusedGroup& group) {
    std::set<NodeId> here(group.nodes.begin(), group.nodes.end());
    for (const ProductGroup& product : group.products) {
      find_uses(stage, product);
      for (const ProductGroup::Member& member : product.members) here.insert(member.result);
    }
    const auto read = [&](NodeId id) {
      id = values_.read[id];
      if (!here.contains(id) && !is_carried(stage, id)) load(stage, id);
    };
    for (NodeId id : group.nodes) std::ranges::for_each(graph_[id].operands, read);
    std::ranges::for_each(group.copies, read);
  }

  /// Outer products are made of what products take, and so are sums of steps' values: they may
  /// share it.
  void find_uses(uint32_t stage, const MoveGroup& group) {
    const Op op = graph_[group.node].op;
    for (const NodeId operand : graph_[group.node].operands) {
      if (op != Op::Reverse && is_integer(graph_, operand)) load(stage, operand);
    }
    if (op != Op::Total) return;
    for (const NodeId operand : graph_[group.node].operands) {
      if (is_integer(graph_, operand)) continue;
      is_exact(group.node) ? load(stage, operand) : multiply(stage, operand);
    }
  }

  /// Of values that are there after all steps.
  bool is_exact(NodeId total) const {
    const Node& node = graph_[total];
    return node.operands.size() == 1 && after_[node.operands[0]] != After::Nothing;
  }

  /// A state in a loop, which has it in registers.
  bool is_carried(uint32_t stage, NodeId id) const {
    id = values_.origin[id].value;
    return schedule_.stages[stage].loop && schedule_.stage[id] == stage &&
           graph_[id].op == Op::State;
  }

  /// What a Transpose, a Reverse, an Earlier or a Rows moves is there in the types in which it is
  /// used.
  void find_source_uses(NodeId id) {
    const Op op = graph_[id].op;
    if (values_.kind[id] != ValueKind::Moved || is_known(op)) return;
    if (op == Op::Total || op == Op::Real) return;
    Uses& uses = uses_[values_.origin[graph_[id].operands[0]].value];
    (op == Op::Reverse ? uses.kept_loaded : uses.loaded) |= uses_[id].loaded;
    (op == Op::Reverse ? uses.kept_multiplied : uses.multiplied) |= uses_[id].multiplied;
  }

  void load(uint32_t stage, NodeId id) {
    use(stage, values_.read[id], &Uses::loaded, &Uses::kept_loaded);
  }

  void multiply(uint32_t stage, NodeId id) {
    use(stage, id, &Uses::multiplied, &Uses::kept_multiplied);
  }

  void use(uint32_t stage, NodeId id, bool Uses::* now, bool Uses::* kept) {
    id = values_.origin[id].value;
    const bool late = schedule_.is_late(id, stage);
    uses_[id].*(late ? kept : now) = true;
    if (!late && schedule_.stage[id] != stage) uses_[id].other_stages = true;
  }

  const Graph& graph_;
  const Schedule& schedule_;
  const Values& values_;
  const std::vector<After>& after_;
  std::vector<Uses> uses_;
};

}  // namespace

std::vector<Uses> find_uses(const Graph& graph, const Schedule& schedule,
                            const std::vector<After>& after) {
  return UseFinder(graph, schedule, after).run();
}

}  // namespace rnnc
