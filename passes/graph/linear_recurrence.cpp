// 1. The recurrence as the body of a step: what it reads of its states are loads, scalar ops stay
//    what they are, and so do those outside that a coefficient is spelled with; the rest outside are
//    loads too. A state read several steps back is a chain of states.
// 2. The proof (passes/affine/affine_forms.h), and its rounds in words.
#include "passes/graph/linear_recurrence.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ir/graph/places.h"
#include "passes/affine/affine_forms.h"
#include "passes/affine/form_text.h"

namespace rnnc {
namespace {

constexpr uint32_t kMostProvedDelay = 8;
constexpr int kDepthOutside = 4;  // of values outside that are spelled by their operands

class StepBody {
 public:
  StepBody(const Graph& graph, const std::vector<NodeId>& nodes)
      : graph_(graph), inside_(nodes.begin(), nodes.end()) {
    std::ranges::sort(inside_);
    for (const NodeId id : nodes) {
      if (graph[id].op == Op::State) state(graph[id].decl, graph[id].delay);
    }
    for (const NodeId id : nodes) instruction_of(id, 0);
    for (auto& [key, number] : numbers_) {
      const auto [decl, delay] = key;
      states_[number].next = delay == 1 ? instruction_of(graph.states[decl].next, 0)
                                        : states_[numbers_.at({decl, delay - 1})].loads[0];
    }
  }

  const std::vector<Instruction>& body() const { return body_; }
  const std::vector<CarriedState>& states() const { return states_; }
  const std::vector<std::string>& names() const { return names_; }
  /// That an instruction is of; none of a part of a chain.
  NodeId node_of(uint32_t instruction) const {
    return instruction < nodes_.size() ? nodes_[instruction] : kNoNode;
  }

 private:
  uint32_t add(Instruction instruction, NodeId node) {
    body_.push_back(std::move(instruction));
    nodes_.push_back(node);
    return static_cast<uint32_t>(body_.size() - 1);
  }

  /// Its load, and those of the steps in between.
  uint32_t state(uint32_t decl, uint32_t delay) {
    const auto known = numbers_.find({decl, delay});
    if (known != numbers_.end()) return states_[known->second].loads[0];
    if (delay > 1) state(decl, delay - 1);
    const uint32_t load = add({.kind = Instruction::Kind::Load, .operands = {}}, kNoNode);
    numbers_[{decl, delay}] = states_.size();
    states_.push_back({{load}, 0});
    const std::string& name = graph_.states[decl].name;
    names_.push_back(delay == 1 ? name : fmt::format("{}@{}", name, delay));
    return load;
  }

  uint32_t instruction_of(NodeId id, int depth) {
    if (const auto known = instructions_.find(id); known != instructions_.end()) {
      return known->second;
    }
    const uint32_t made = make(id, depth);
    instructions_.emplace(id, made);
    return made;
  }

  uint32_t make(NodeId id, int depth) {
    const Node& node = graph_[id];
    const bool inside = std::ranges::binary_search(inside_, id);
    if (inside && node.op == Op::State) return state(node.decl, node.delay);
    if (node.op == Op::Constant) {
      return add({.kind = Instruction::Kind::Constant, .value = node.value, .operands = {}}, id);
    }
    if (node.op == Op::Broadcast) return instruction_of(node.operands[0], depth);
    if (!info(node.op).scalar || (!inside && depth == kDepthOutside)) {
      return add({.kind = Instruction::Kind::Load, .operands = {}}, id);
    }
    Instruction scalar = {.kind = Instruction::Kind::Scalar, .op = node.op, .operands = {}};
    for (const NodeId operand : node.operands) {
      scalar.operands.push_back(instruction_of(operand, inside ? 0 : depth + 1));
    }
    return add(std::move(scalar), id);
  }

  const Graph& graph_;
  std::vector<NodeId> inside_;
  std::vector<Instruction> body_;
  std::vector<NodeId> nodes_;  // by instruction
  std::map<NodeId, uint32_t> instructions_;
  std::vector<CarriedState> states_;
  std::vector<std::string> names_;
  std::map<std::pair<uint32_t, uint32_t>, size_t> numbers_;  // of states, by decl and delay
};

/// Of values that have a name, or a text where they are no scalar op; others go by their operands.
std::string name_of(const Graph& graph, const ValueNames& names, NodeId id) {
  if (id == kNoNode) return "";
  const std::string name = names.of(id);
  const bool named = name.find_first_of("`%") == std::string::npos;
  if (named || info(graph[id].op).scalar) return named ? name : "";
  const std::string text = text_at(graph, graph[id].location);
  return text.empty() ? name : text;
}

std::string reason_of(const Graph& graph, const StepBody& body, const AffineForms& forms) {
  const ValueNames names(graph);
  std::string text(kAffineReason);
  for (const ScanRound& round : forms.rounds) {
    if (&round != &forms.rounds[0]) text += "; ";
    text += form_text(forms.instructions, round, body.names(),
                      [&](uint32_t id) { return name_of(graph, names, body.node_of(id)); });
  }
  return text;
}

LinearProof refuse(const Graph& graph, NodeId id, const std::string& why) {
  const std::string place = id == kNoNode ? "" : place_of(graph, graph[id].location);
  return {false, fmt::format("{}{}; no product or reduction inside", why,
                             place.empty() ? "" : " (" + place + ")")};
}

bool mixes_states(Op op) {
  return op == Op::Slice || op == Op::Index || op == Op::Concat || op == Op::Stack;
}

}  // namespace

LinearProof prove_linear(const Graph& graph, const std::vector<NodeId>& nodes) {
  const auto mixing =
      std::ranges::find_if(nodes, [&](NodeId id) { return mixes_states(graph[id].op); });
  if (mixing != nodes.end()) {
    return refuse(graph, *mixing,
                  fmt::format("{} mixes states of an array", info(graph[*mixing].op).name));
  }
  const auto far =
      std::ranges::find_if(nodes, [&](NodeId id) { return graph[id].delay > kMostProvedDelay; });
  if (far != nodes.end()) {
    return refuse(graph, *far, fmt::format("it reads {} steps back", graph[*far].delay));
  }
  const StepBody body(graph, nodes);
  if (body.states().size() > kMostProvedStates) {
    return refuse(graph, kNoNode, fmt::format("it has {} states", body.states().size()));
  }
  const auto forms = find_affine_forms(body.body(), body.states());
  if (!forms) return refuse(graph, body.node_of(forms.error().instruction), forms.error().why);
  return {true, reason_of(graph, body, *forms)};
}

}  // namespace rnnc
