// 1. In order of ids, point each node's operands at the first of their equals.
// 2. Look the node up by all that makes its value: op, operands (sorted where their order does not
//    matter), declaration, delay, the bits of its constant, and of the ops that operands do not
//    decide alone, shape and positions; the first of its kind stands for all.
// 3. Point states and outputs at the first of their equals.
#include "passes/graph/common_subexpressions.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "passes/graph/rebuild.h"

namespace rnnc {
namespace {

using Key =
    std::tuple<Op, std::vector<NodeId>, uint32_t, uint32_t, uint64_t, std::string, std::string>;

Key key_of(const Node& node) {
  Key key{node.op, node.operands, node.decl, node.delay, std::bit_cast<uint64_t>(node.value), {},
          {}};
  switch (node.op) {
    case Op::Add:
    case Op::Mul:
    case Op::Eq:
    case Op::Ne:  // not Min and Max: of 0 and -0 they take the first
      std::ranges::sort(std::get<1>(key));
      break;
    case Op::Vector:
      for (const double value : node.values) {
        std::get<5>(key) += fmt::format("{} ", std::bit_cast<uint64_t>(value));
      }
      break;
    case Op::Range:
    case Op::Eye:
    case Op::Broadcast:
    case Op::Total:
      std::get<5>(key) = to_string(node.type.shape);
      break;
    case Op::Slice:
    case Op::Index:
      std::get<5>(key) = node.begin.to_string();
      std::get<6>(key) = node.end.to_string();
      break;
    default:
      break;
  }
  return key;
}

}  // namespace

bool run_common_subexpressions(Graph& graph) {
  std::map<Key, NodeId> first_of_kind;
  std::vector<NodeId> stands_for(graph.nodes.size());
  bool changed = false;
  const auto redirect = [&](NodeId& use) {
    changed = changed || stands_for[use] != use;
    use = stands_for[use];
  };

  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    Node& node = graph.nodes[id];
    for (NodeId& operand : node.operands) redirect(operand);
    stands_for[id] = first_of_kind.emplace(key_of(node), id).first->second;
  }
  for_each_root(graph, redirect);
  return changed;
}

}  // namespace rnnc
