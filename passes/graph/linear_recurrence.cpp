// 1. The recurrence as the body of a step: what it reads of its states are loads, scalar ops stay
//    what they are, and so do those outside that a coefficient is spelled with; the rest outside are
//    loads too. A state read several steps back is a chain of states, an array one state for each of
//    its elements.
// 2. The proof (passes/affine/affine_forms.h), and its rounds in words; those of elements of an array
//    that differ in their number alone once.
#include "passes/graph/linear_recurrence.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "ir/graph/places.h"
#include "passes/affine/affine_forms.h"
#include "passes/affine/form_text.h"

namespace rnnc {
namespace {

constexpr uint32_t kMostProvedDelay = 8;
constexpr int kDepthOutside = 4;      // of values outside that are spelled by their operands
constexpr size_t kMostEquations = 8;  // in words

/// Of a value that is an array of rows: its last axis is a row's.
uint32_t count_elements(const Node& node) {
  if (node.type.rank() < 2) return 1;
  return static_cast<uint32_t>(node.type.shape[0].constant().value_or(0));
}

/// An element of an array's value; 0 of any other.
struct Element {
  NodeId node = kNoNode;
  uint32_t number = 0;
  auto operator<=>(const Element&) const = default;
};

/// A state's element, so many steps back.
struct Carried {
  uint32_t decl = 0;
  uint32_t element = 0;
  uint32_t delay = 0;
  auto operator<=>(const Carried&) const = default;
};

class StepBody {
 public:
  /// `apart`: elements of arrays are states of their own.
  StepBody(const Graph& graph, const std::vector<NodeId>& nodes, bool apart)
      : graph_(graph), apart_(apart), inside_(nodes.begin(), nodes.end()) {
    std::ranges::sort(inside_);
    for (const NodeId id : nodes) {
      if (graph[id].op != Op::State) continue;
      for (uint32_t element = 0; element < count(id); ++element) {
        state({graph[id].decl, element, graph[id].delay});
      }
    }
    for (const NodeId id : nodes) {
      for (uint32_t element = 0; element < count(id); ++element) {
        instruction_of({id, element}, 0);
      }
    }
    for (auto& [key, number] : numbers_) {
      const auto [decl, element, delay] = key;
      states_[number].next = delay == 1 ? instruction_of({graph.states[decl].next, element}, 0)
                                        : states_[numbers_.at({decl, element, delay - 1})].loads[0];
    }
  }

  const std::vector<Instruction>& body() const { return body_; }
  const std::vector<CarriedState>& states() const { return states_; }
  const std::vector<std::string>& names() const { return names_; }
  /// "h[t-1]", of the load of a state; "" of any other instruction.
  std::string state_loaded_by(uint32_t instruction) const {
    const auto found = loaded_.find(instruction);
    return found == loaded_.end() ? "" : found->second;
  }
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

  uint32_t count(NodeId id) const { return apart_ ? count_elements(graph_[id]) : 1; }

  /// Its load, and those of the steps in between.
  uint32_t state(const Carried& carried) {
    const auto known = numbers_.find(carried);
    if (known != numbers_.end()) return states_[known->second].loads[0];
    if (carried.delay > 1) state({carried.decl, carried.element, carried.delay - 1});
    const uint32_t load = add({.kind = Instruction::Kind::Load, .operands = {}}, kNoNode);
    numbers_[carried] = states_.size();
    states_.push_back({{load}, 0});
    const StateDecl& decl = graph_.states[carried.decl];
    std::string name = decl.name;
    if (apart_ && decl.type.rank() == 2) name += fmt::format("[{}]", carried.element);
    if (carried.delay > 1) name += fmt::format("@{}", carried.delay);
    loaded_[load] = name + "[t-1]";
    names_.push_back(std::move(name));
    return load;
  }

  uint32_t instruction_of(const Element& element, int depth) {
    if (const auto known = instructions_.find(element); known != instructions_.end()) {
      return known->second;
    }
    const uint32_t made = make(element, depth);
    instructions_.emplace(element, made);
    return made;
  }

  /// What an operand gives to an element: of an array its own, of one value for all that.
  Element element_of(NodeId operand, const Element& user) const {
    return {operand, count(operand) > 1 ? user.number : 0};
  }

  uint32_t make(const Element& element, int depth) {
    const auto [id, number] = element;
    const Node& node = graph_[id];
    const bool inside = std::ranges::binary_search(inside_, id);
    if (inside && node.op == Op::State) return state({node.decl, number, node.delay});
    if (inside && node.op == Op::Index) {
      const auto position = static_cast<uint32_t>(*node.begin.constant());
      return instruction_of({node.operands[0], position}, depth);
    }
    if (inside && node.op == Op::Stack) return instruction_of({node.operands[number], 0}, depth);
    if (node.op == Op::Constant) {
      return add({.kind = Instruction::Kind::Constant, .value = node.value, .operands = {}}, id);
    }
    if (node.op == Op::Broadcast)
      return instruction_of(element_of(node.operands[0], element), depth);
    if (!info(node.op).scalar || (!inside && depth == kDepthOutside)) {
      return add({.kind = Instruction::Kind::Load, .operands = {}}, id);
    }
    Instruction scalar = {.kind = Instruction::Kind::Scalar, .op = node.op, .operands = {}};
    for (const NodeId operand : node.operands) {
      const Element part = element_of(operand, element);
      scalar.operands.push_back(instruction_of(part, inside ? 0 : depth + 1));
    }
    return add(std::move(scalar), id);
  }

  const Graph& graph_;
  const bool apart_;
  std::vector<NodeId> inside_;
  std::vector<Instruction> body_;
  std::vector<NodeId> nodes_;  // by instruction
  std::map<Element, uint32_t> instructions_;
  std::vector<CarriedState> states_;
  std::vector<std::string> names_;
  std::map<uint32_t, std::string> loaded_;  // last values of states, by instruction
  std::map<Carried, size_t> numbers_;       // of states
};

/// Of values that have a name, or a text where nothing spells them by operands; others go by these.
std::string name_of(const Graph& graph, const ValueNames& names, NodeId id, bool spelled) {
  if (id == kNoNode) return "";
  const std::string name = names.of(id);
  const bool named = name.find_first_of("`%") == std::string::npos;
  if (named || spelled) return named ? name : "";
  const std::string text = text_at(graph, graph[id].location);
  return text.empty() ? name : text;
}

/// Without the numbers of elements in state arrays.
std::string without_numbers(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] != '[') continue;
    const size_t end = text.find_first_not_of("0123456789", i + 1);
    if (end != std::string::npos && text[end] == ']') i = end - 1;
  }
  return result;
}

/// The rounds, but for those that only differ from an earlier one in elements' numbers.
std::string reason_of(const Graph& graph, const StepBody& body, const AffineForms& forms) {
  const ValueNames names(graph);
  const auto name = [&](uint32_t id) {
    if (std::string state = body.state_loaded_by(id); !state.empty()) return state;
    const bool spelled = forms.instructions[id].kind == Instruction::Kind::Scalar;
    return name_of(graph, names, body.node_of(id), spelled);
  };
  std::vector<std::string> equations;
  std::set<std::string> kinds;
  size_t alike = 0;
  for (const ScanRound& round : forms.rounds) {
    std::string equation = form_text(forms.instructions, round, body.names(), name);
    if (!kinds.insert(without_numbers(equation)).second) {
      alike += round.states.size();
    } else {
      equations.push_back(std::move(equation));
    }
  }
  const size_t shown = std::min(equations.size(), kMostEquations);
  std::string text(kAffineReason);
  text += fmt::format("{}", fmt::join(equations.begin(), equations.begin() + shown, "; "));
  if (shown < equations.size()) text += fmt::format("; and {} more", equations.size() - shown);
  if (alike > 0) text += fmt::format("; and {} more likewise", alike);
  return text;
}

LinearProof refuse(const Graph& graph, NodeId id, const std::string& why) {
  const std::string place = id == kNoNode ? "" : place_of(graph, graph[id].location);
  return {false, fmt::format("{}{}; no product or reduction inside", why,
                             place.empty() ? "" : " (" + place + ")")};
}

/// Whether a node takes elements of arrays together in another way than one by one.
bool mixes_elements(const Graph& graph, NodeId id, bool apart) {
  const Node& node = graph[id];
  const auto is_whole = [&](NodeId operand) { return graph[operand].type.rank() <= 2; };
  switch (node.op) {
    case Op::Slice:
    case Op::Concat:
      return true;
    case Op::Index:
      return !node.begin.constant() || !is_whole(node.operands[0]);
    case Op::Stack:
      return node.type.rank() != 2;
    default:
      return apart && (node.type.rank() > 2 || count_elements(node) == 0);
  }
}

}  // namespace

LinearProof prove_linear(const Graph& graph, const std::vector<NodeId>& nodes) {
  const bool apart = std::ranges::any_of(
      nodes, [&](NodeId id) { return graph[id].op == Op::Index || graph[id].op == Op::Stack; });
  const auto mixing =
      std::ranges::find_if(nodes, [&](NodeId id) { return mixes_elements(graph, id, apart); });
  if (mixing != nodes.end()) {
    return refuse(graph, *mixing,
                  fmt::format("{} mixes states of an array", info(graph[*mixing].op).name));
  }
  const auto count = [&](size_t sum, NodeId id) {
    const bool state = graph[id].op == Op::State;
    return sum + (!state ? 0 : apart ? count_elements(graph[id]) : 1);
  };
  const size_t states = std::accumulate(nodes.begin(), nodes.end(), size_t{0}, count);
  if (states > kMostProvedStates) {
    return refuse(graph, kNoNode, fmt::format("it has {} states", states));
  }
  const auto far =
      std::ranges::find_if(nodes, [&](NodeId id) { return graph[id].delay > kMostProvedDelay; });
  if (far != nodes.end()) {
    return refuse(graph, *far, fmt::format("it reads {} steps back", graph[*far].delay));
  }
  const StepBody body(graph, nodes, apart);
  if (body.states().size() > kMostProvedStates) {
    return refuse(graph, kNoNode, fmt::format("it has {} states", body.states().size()));
  }
  const auto forms = find_affine_forms(body.body(), body.states());
  if (!forms) return refuse(graph, body.node_of(forms.error().instruction), forms.error().why);
  return {true, reason_of(graph, body, *forms)};
}

}  // namespace rnnc
