// 1. Number the strongly connected components of the step graph, where a node depends on its
//    operands and a state read depends on the state's `next` (Tarjan, without recursion). They come
//    out with dependencies first.
// 2. A component with a cycle is a recurrence. A node is invariant if no input, state or mask is
//    among what it depends on.
// 3. The depth of a component is the greatest number of recurrences on a path to it. Stages are, by
//    sweep and then by depth: all time-parallel nodes, then each recurrence.
//    What comes after all steps is a stage of its own.
// 4. Classify each recurrence. Its units are the positions along the last axis of its values. Dense
//    if something moves values between any units; block if that is only between units of the same
//    block, by block-diagonal products; else linear if its states go on by affine maps
//    (passes/graph/linear_recurrence.h), else elementwise. Count its phases.
#include "passes/graph/dependence.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "ir/graph/sweeps.h"
#include "passes/graph/linear_recurrence.h"

namespace rnnc {
namespace {

constexpr uint32_t kUnseen = UINT32_MAX;

/// Number `index` of the nodes that `id` depends on, or kNoNode past the last.
NodeId dependency(const Graph& graph, NodeId id, size_t index) {
  const Node& node = graph[id];
  if (node.op == Op::State) return index == 0 ? graph.states[node.decl].next : kNoNode;
  return index < node.operands.size() ? node.operands[index] : kNoNode;
}

struct Components {
  std::vector<uint32_t> of_node;
  std::vector<std::vector<NodeId>> nodes;  // of each component, ascending; dependencies first
};

class Tarjan {
 public:
  explicit Tarjan(const Graph& graph)
      : graph_(graph), index_(graph.nodes.size(), kUnseen), low_(graph.nodes.size(), 0) {
    result_.of_node.assign(graph.nodes.size(), kUnseen);
  }

  Components run() {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (index_[id] == kUnseen) visit(id);
    }
    return std::move(result_);
  }

 private:
  struct Frame {
    NodeId node;
    size_t edge = 0;
  };

  void enter(NodeId id) {
    index_[id] = low_[id] = counter_++;
    path_.push_back(id);
    frames_.push_back({id});
  }

  void visit(NodeId root) {
    enter(root);
    while (!frames_.empty()) {
      const NodeId id = frames_.back().node;
      const NodeId next = dependency(graph_, id, frames_.back().edge++);
      if (next != kNoNode) {
        if (index_[next] == kUnseen) {
          enter(next);
        } else if (result_.of_node[next] == kUnseen) {  // on the path
          low_[id] = std::min(low_[id], index_[next]);
        }
        continue;
      }
      frames_.pop_back();
      if (!frames_.empty()) {
        const NodeId parent = frames_.back().node;
        low_[parent] = std::min(low_[parent], low_[id]);
      }
      if (low_[id] == index_[id]) close(id);
    }
  }

  /// Everything on the path from `id` on is one component.
  void close(NodeId id) {
    const auto begin = std::find(path_.rbegin(), path_.rend(), id).base() - 1;
    std::vector<NodeId> nodes(begin, path_.end());
    path_.erase(begin, path_.end());
    std::sort(nodes.begin(), nodes.end());
    for (NodeId node : nodes) result_.of_node[node] = static_cast<uint32_t>(result_.nodes.size());
    result_.nodes.push_back(std::move(nodes));
  }

  const Graph& graph_;
  std::vector<uint32_t> index_, low_;
  std::vector<NodeId> path_;
  std::vector<Frame> frames_;
  uint32_t counter_ = 0;
  Components result_;
};

bool has_cycle(const Graph& graph, const std::vector<NodeId>& nodes) {
  if (nodes.size() > 1) return true;
  const Node& node = graph[nodes[0]];
  return node.op == Op::State && graph.states[node.decl].next == nodes[0];
}

bool varies_by_itself(Op op) {
  return op == Op::Input || op == Op::State || op == Op::Valid || op == Op::Reset;
}

bool crosses_units(Op op) {
  return op == Op::MatMul || is_reduction(op);
}

/// Whether the node takes values of one unit to another without arithmetic.
bool moves_units(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::Slice:
    case Op::Concat:
    case Op::Index:
      return graph[node.operands[0]].type.rank() == 1;
    case Op::Stack:
      return node.type.rank() == 1;
    case Op::Transpose:
      return true;
    default:
      return false;
  }
}

/// Facts about one recurrence, from a walk over its nodes.
class Classifier {
 public:
  Classifier(const Graph& graph, const Recurrence& recurrence)
      : graph_(graph), recurrence_(recurrence), inside_(graph.nodes.size(), false) {
    for (NodeId id : recurrence.nodes) inside_[id] = true;
  }

  void classify(Recurrence& recurrence) const {
    recurrence.phases = phases();
    const auto [recurrence_class, reason] = find_class(recurrence.blocks);
    recurrence.recurrence_class = recurrence_class;
    recurrence.reason = reason;
  }

 private:
  std::pair<RecurrenceClass, std::string> find_class(uint32_t& blocks) const {
    const NodeId mixing =
        first([&](NodeId id) { return crosses_units(graph_[id].op) && block_count(id) <= 1; });
    if (mixing != kNoNode) return {RecurrenceClass::Dense, crossing_reason(mixing)};
    const NodeId moving = first([&](NodeId id) { return moves_units(graph_, graph_[id]); });
    if (moving != kNoNode) {
      return {RecurrenceClass::Dense, fmt::format("{} inside moves values between its units",
                                                  info(graph_[moving].op).name)};
    }
    const NodeId product = first([&](NodeId id) { return graph_[id].op == Op::MatMul; });
    if (product != kNoNode) {
      const uint32_t common = common_blocks();
      if (common == 1) {
        return {RecurrenceClass::Dense, "its products are block-diagonal with different blocks"};
      }
      blocks = common;
      return {RecurrenceClass::Block,
              fmt::format("its products are block-diagonal, of {} blocks", common)};
    }
    const LinearProof proof = prove_linear(graph_, recurrence_.nodes);
    return {proof.linear ? RecurrenceClass::Linear : RecurrenceClass::Elementwise, proof.reason};
  }

  template <typename Predicate>
  NodeId first(Predicate predicate) const {
    const auto found = std::find_if(recurrence_.nodes.begin(), recurrence_.nodes.end(), predicate);
    return found == recurrence_.nodes.end() ? kNoNode : *found;
  }

  /// Blocks of a block-diagonal product; 0 for anything else.
  uint32_t block_count(NodeId id) const {
    if (graph_[id].op != Op::MatMul) return 0;
    for (NodeId operand : graph_[id].operands) {
      const Shape& shape = graph_[operand].type.shape;
      if (shape.size() == 3) return static_cast<uint32_t>(shape[0].constant().value_or(1));
    }
    return 0;
  }

  /// Equal blocks so many that no product goes from one to another.
  uint32_t common_blocks() const {
    uint32_t common = 0;
    for (NodeId id : recurrence_.nodes) common = std::gcd(common, block_count(id));
    return common;
  }

  /// The greatest number of products and reductions on a path within the step.
  int phases() const {
    std::map<NodeId, int> depth;  // of the recurrence's nodes
    int most = 0;
    for (NodeId id : recurrence_.nodes) {
      const Node& node = graph_[id];
      int& own = depth[id];
      for (NodeId operand : node.operands) {
        if (inside_[operand]) own = std::max(own, depth[operand]);
      }
      if (crosses_units(node.op)) ++own;
      most = std::max(most, own);
    }
    return most;
  }

  std::string crossing_reason(NodeId id) const {
    const Node& node = graph_[id];
    if (node.op != Op::MatMul) {
      return fmt::format("{} over a vector inside mixes its units", info(node.op).name);
    }
    for (NodeId operand : node.operands) {
      if (inside_[operand]) continue;
      return fmt::format("the product with {} {} mixes its units", weight_name(operand),
                         to_string(graph_[operand].type.shape));
    }
    return "a product of two of its own values mixes its units";
  }

  /// The param that a weight is, or is a part of.
  std::string weight_name(NodeId id) const {
    const Node* node = &graph_[id];
    while (node->op == Op::Index || node->op == Op::Slice || node->op == Op::Transpose) {
      node = &graph_[node->operands[0]];
    }
    if (node->op == Op::Param) return graph_.params[node->decl].name;
    return "a value computed from other values";
  }

  const Graph& graph_;
  const Recurrence& recurrence_;
  std::vector<bool> inside_;
};

/// Builds the result from the components.
class Analysis {
 public:
  explicit Analysis(const Graph& graph)
      : graph_(graph), components_(Tarjan(graph).run()), after_(find_after(graph)) {
    std::optional<std::vector<uint32_t>> sweeps = find_sweeps(graph);
    RNNC_CHECK(sweeps, "a recurrence passes through a Reverse");
    sweeps_ = std::move(*sweeps);
  }

  Dependence run() {
    result_.variation.assign(graph_.nodes.size(), Variation::Invariant);
    result_.stage.assign(graph_.nodes.size(), 0);
    depth_.assign(components_.nodes.size(), 0);
    for (uint32_t c = 0; c < components_.nodes.size(); ++c) place(c);
    order_stages();
    return std::move(result_);
  }

 private:
  bool is_recurrence(uint32_t component) const {
    return result_.variation[components_.nodes[component][0]] == Variation::Recurrent;
  }

  /// Whether it is computed after all steps: totals of steps' values are not.
  bool comes_last(NodeId id) const {
    const Node& node = graph_[id];
    const NodeId decides = node.op == Op::Total ? node.operands[0] : id;
    return after_[decides] != After::Nothing;
  }

  /// Variation and depth of one component, from those it depends on.
  void place(uint32_t component) {
    const std::vector<NodeId>& nodes = components_.nodes[component];
    Variation variation = Variation::Invariant;
    for (NodeId id : nodes) {
      if (varies_by_itself(graph_[id].op)) variation = Variation::Sequence;
      for (size_t i = 0; dependency(graph_, id, i) != kNoNode; ++i) {
        const uint32_t before = components_.of_node[dependency(graph_, id, i)];
        if (before == component) continue;
        if (result_.variation[components_.nodes[before][0]] != Variation::Invariant) {
          variation = Variation::Sequence;
        }
        depth_[component] =
            std::max(depth_[component], depth_[before] + (is_recurrence(before) ? 1 : 0));
      }
    }
    if (has_cycle(graph_, nodes)) variation = Variation::Recurrent;
    if (after_[nodes[0]] != After::Nothing) variation = Variation::After;
    for (NodeId id : nodes) result_.variation[id] = variation;
  }

  void order_stages() {
    struct Place {
      std::vector<NodeId> parallel;
      std::vector<uint32_t> recurrences;  // components
    };
    std::map<std::pair<uint32_t, uint32_t>, Place> places;  // by sweep and depth
    std::vector<NodeId> last;
    result_.order.push_back({Domain::Once, {}, UINT32_MAX});
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const uint32_t component = components_.of_node[id];
      if (result_.variation[id] == Variation::Invariant) {
        result_.order[0].nodes.push_back(id);
        continue;
      }
      if (comes_last(id)) {
        last.push_back(id);
        continue;
      }
      Place& place = places[{sweeps_[id], depth_[component]}];
      if (result_.variation[id] != Variation::Recurrent) {
        place.parallel.push_back(id);
      } else if (components_.nodes[component][0] == id) {
        place.recurrences.push_back(component);
      }
    }
    for (auto& [at, place] : places) {
      const uint32_t sweep = at.first;
      if (!place.parallel.empty()) {
        result_.order.push_back({Domain::Sequence, std::move(place.parallel), UINT32_MAX, sweep});
      }
      for (uint32_t component : place.recurrences) add_recurrence(component, sweep);
    }
    if (!graph_.results.empty() || !last.empty()) {
      const uint32_t sweep = result_.order.back().sweep;
      result_.order.push_back({Domain::Last, std::move(last), UINT32_MAX, sweep});
    }
    for (uint32_t stage = 0; stage < result_.order.size(); ++stage) {
      for (NodeId id : result_.order[stage].nodes) result_.stage[id] = stage;
    }
  }

  void add_recurrence(uint32_t component, uint32_t sweep) {
    Recurrence recurrence;
    recurrence.nodes = components_.nodes[component];
    for (NodeId id : recurrence.nodes) {
      if (graph_[id].op == Op::State) recurrence.states.push_back(graph_[id].decl);
    }
    std::sort(recurrence.states.begin(), recurrence.states.end());
    recurrence.states.erase(std::unique(recurrence.states.begin(), recurrence.states.end()),
                            recurrence.states.end());
    Classifier(graph_, recurrence).classify(recurrence);
    const auto number = static_cast<uint32_t>(result_.recurrences.size());
    result_.order.push_back({Domain::Step, recurrence.nodes, number, sweep});
    result_.recurrences.push_back(std::move(recurrence));
  }

  const Graph& graph_;
  Components components_;
  std::vector<After> after_;      // per node
  std::vector<uint32_t> sweeps_;  // per node
  std::vector<uint32_t> depth_;   // per component
  Dependence result_;
};

}  // namespace

Dependence analyse_dependence(const Graph& graph) {
  if (graph.nodes.empty()) return {{}, {}, {{Domain::Once, {}, UINT32_MAX}}, {}};
  return Analysis(graph).run();
}

}  // namespace rnnc
