// Directions: one pass over the nodes, since states and leaves declare theirs.
//
// Sweeps, as a longest path:
// 1. Put every node in sweep 0.
// 2. Raise each node to what its operands ask for, and each read of a state to its `next`'s sweep.
// 3. Repeat 2 until nothing changes. A path without a cycle passes each Reverse at most once: a
//    node beyond their number is on a recurrence through one.
#include "ir/graph/sweeps.h"

#include <algorithm>

namespace rnnc {
namespace {

Direction join(Direction a, Direction b) {
  if (a == Direction::Invariant) return b;
  return b == Direction::Invariant || a == b ? a : Direction::Mixed;
}

Direction opposite(Direction direction) {
  if (direction == Direction::Forward) return Direction::Reversed;
  return direction == Direction::Reversed ? Direction::Forward : direction;
}

Direction in_reverse(bool reversed) {
  return reversed ? Direction::Reversed : Direction::Forward;
}

}  // namespace

std::vector<Direction> find_directions(const Graph& graph) {
  std::vector<Direction> directions;
  directions.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    Direction direction = Direction::Invariant;
    for (const NodeId operand : node.operands) direction = join(direction, directions[operand]);
    if (node.op == Op::Input) direction = Direction::Forward;
    if (node.op == Op::State) direction = in_reverse(graph.states[node.decl].reversed);
    if (node.op == Op::Valid || node.op == Op::Reset) direction = in_reverse(node.decl != 0);
    if (node.op == Op::Reverse) direction = opposite(direction);
    if (node.op == Op::Total && direction != Direction::Mixed) direction = Direction::Invariant;
    directions.push_back(direction);
  }
  return directions;
}

std::vector<After> find_after(const Graph& graph) {
  std::vector<After> after;
  after.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    After own = node.op == Op::Final ? After::Batch : After::Nothing;
    for (const NodeId operand : node.operands) own = std::max(own, after[operand]);
    after.push_back(node.op == Op::Total ? After::Steps : own);
  }
  return after;
}

std::optional<std::vector<bool>> find_reversed(const Graph& graph) {
  std::vector<bool> reversed;
  reversed.reserve(graph.nodes.size());
  for (const Direction direction : find_directions(graph)) {
    if (direction == Direction::Mixed) return std::nullopt;
    reversed.push_back(direction == Direction::Reversed);
  }
  return reversed;
}

std::optional<std::vector<uint32_t>> find_sweeps(const Graph& graph) {
  const std::vector<Direction> directions = find_directions(graph);
  const auto reversals = std::ranges::count(graph.nodes, Op::Reverse, &Node::op);
  // A Reverse of these has all steps of its operand in any sweep.
  const auto is_there = [&](NodeId id) {
    const Node& node = graph[id];
    return directions[id] == Direction::Invariant || (node.op == Op::Input && node.delay == 0);
  };

  std::vector<uint32_t> sweeps(graph.nodes.size(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      const Node& node = graph[id];
      uint32_t sweep = sweeps[id];
      for (const NodeId operand : node.operands) {
        const bool waits = node.op == Op::Reverse && !is_there(operand);
        sweep = std::max(sweep, sweeps[operand] + (waits ? 1 : 0));
      }
      if (node.op == Op::State) sweep = std::max(sweep, sweeps[graph.states[node.decl].next]);
      if (sweep > reversals) return std::nullopt;
      changed = changed || sweep != sweeps[id];
      sweeps[id] = sweep;
    }
  }
  return sweeps;
}

}  // namespace rnnc
