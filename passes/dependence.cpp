// 1. Number the strongly connected components of the step graph, where a node depends on its
//    operands and a state read depends on the state's `next` (Tarjan, without recursion). They come
//    out with dependencies first.
// 2. A component with a cycle is a recurrence. A node is invariant if no input or state is among
//    what it depends on.
// 3. The depth of a component is the greatest number of recurrences on a path to it. Stages are, by
//    depth: all time-parallel nodes, then each recurrence.
// 4. Classify each recurrence: linear if each of its values is affine in its states; else
//    elementwise if there is no product or reduction in it; else dense. Count its phases.
#include "passes/dependence.h"

#include <algorithm>

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

bool crosses_units(Op op) {
  return op == Op::MatMul || is_reduction(op);
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
    if (const NodeId node = first([&](NodeId id) { return crosses_units(graph_[id].op); });
        node != kNoNode) {
      recurrence.recurrence_class = RecurrenceClass::Dense;
      recurrence.reason = crossing_reason(node);
    } else if (const NodeId other = first([&](NodeId id) { return !is_affine(id); });
               other != kNoNode) {
      recurrence.recurrence_class = RecurrenceClass::Elementwise;
      recurrence.reason =
          fmt::format("{} makes it nonlinear; no product or reduction inside", describe(other));
    } else {
      recurrence.recurrence_class = RecurrenceClass::Linear;
      recurrence.reason =
          "every update is affine in its states, with coefficients from outside the recurrence";
    }
  }

 private:
  template <typename Predicate>
  NodeId first(Predicate predicate) const {
    const auto found = std::find_if(recurrence_.nodes.begin(), recurrence_.nodes.end(), predicate);
    return found == recurrence_.nodes.end() ? kNoNode : *found;
  }

  /// Given that its operands are affine in the recurrence's states, is the node's value?
  bool is_affine(NodeId id) const {
    const Node& node = graph_[id];
    const auto outside = [&](size_t i) { return !inside_[node.operands[i]]; };
    switch (node.op) {
      case Op::State:
      case Op::Neg:
      case Op::Add:
      case Op::Sub:
        return true;
      case Op::Mul:
        return outside(0) || outside(1);
      case Op::Div:
        return outside(1);
      case Op::Where:
        return outside(0);
      default:
        return false;
    }
  }

  /// The greatest number of products and reductions on a path within the step.
  int phases() const {
    std::vector<int> depth(graph_.nodes.size(), 0);
    int most = 0;
    for (NodeId id : recurrence_.nodes) {
      const Node& node = graph_[id];
      for (NodeId operand : node.operands) {
        if (inside_[operand]) depth[id] = std::max(depth[id], depth[operand]);
      }
      if (crosses_units(node.op)) ++depth[id];
      most = std::max(most, depth[id]);
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
      const Node& weight = graph_[operand];
      const std::string what = weight.op == Op::Param
                                   ? graph_.params[weight.decl].name
                                   : std::string("a value computed from other values");
      return fmt::format("the product with {} {} mixes its units", what,
                         to_string(weight.type.shape));
    }
    return "a product of two of its own values mixes its units";
  }

  /// "tanh", or "mul of two of its own values" where the op alone would be linear.
  std::string describe(NodeId id) const {
    const Op op = graph_[id].op;
    if (op == Op::Mul) return "mul of two of its own values";
    if (op == Op::Div) return "div by one of its own values";
    if (op == Op::Where) return "where on one of its own values";
    return std::string(info(op).name);
  }

  const Graph& graph_;
  const Recurrence& recurrence_;
  std::vector<bool> inside_;
};

/// Builds the result from the components.
class Analysis {
 public:
  explicit Analysis(const Graph& graph) : graph_(graph), components_(Tarjan(graph).run()) {}

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

  /// Variation and depth of one component, from those it depends on.
  void place(uint32_t component) {
    const std::vector<NodeId>& nodes = components_.nodes[component];
    Variation variation = Variation::Invariant;
    for (NodeId id : nodes) {
      if (graph_[id].op == Op::Input || graph_[id].op == Op::State) variation = Variation::Sequence;
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
    for (NodeId id : nodes) result_.variation[id] = variation;
  }

  void order_stages() {
    result_.order.push_back({Domain::Once, {}, UINT32_MAX});
    const uint32_t deepest = *std::max_element(depth_.begin(), depth_.end());
    std::vector<Dependence::StageNodes> parallel(deepest + 1);
    std::vector<std::vector<uint32_t>> recurrences(deepest + 1);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const uint32_t component = components_.of_node[id];
      if (result_.variation[id] == Variation::Invariant) {
        result_.order[0].nodes.push_back(id);
      } else if (result_.variation[id] == Variation::Sequence) {
        parallel[depth_[component]].nodes.push_back(id);
      } else if (components_.nodes[component][0] == id) {
        recurrences[depth_[component]].push_back(component);
      }
    }
    for (uint32_t depth = 0; depth <= deepest; ++depth) {
      if (!parallel[depth].nodes.empty()) result_.order.push_back(std::move(parallel[depth]));
      for (uint32_t component : recurrences[depth]) add_recurrence(component);
    }
    for (uint32_t stage = 0; stage < result_.order.size(); ++stage) {
      for (NodeId id : result_.order[stage].nodes) result_.stage[id] = stage;
    }
  }

  void add_recurrence(uint32_t component) {
    Recurrence recurrence;
    recurrence.nodes = components_.nodes[component];
    for (NodeId id : recurrence.nodes) {
      if (graph_[id].op == Op::State) recurrence.states.push_back(graph_[id].decl);
    }
    std::sort(recurrence.states.begin(), recurrence.states.end());
    recurrence.states.erase(std::unique(recurrence.states.begin(), recurrence.states.end()),
                            recurrence.states.end());
    Classifier(graph_, recurrence).classify(recurrence);
    result_.order.push_back(
        {Domain::Step, recurrence.nodes, static_cast<uint32_t>(result_.recurrences.size())});
    result_.recurrences.push_back(std::move(recurrence));
  }

  const Graph& graph_;
  Components components_;
  std::vector<uint32_t> depth_;  // per component
  Dependence result_;
};

}  // namespace

Dependence analyse_dependence(const Graph& graph) {
  if (graph.nodes.empty()) return {{}, {}, {{Domain::Once, {}, UINT32_MAX}}, {}};
  return Analysis(graph).run();
}

}  // namespace rnnc
