#include "passes/schedule/group_values.h"

namespace rnnc {

std::vector<NodeId> made_by(const Group& group) {
  std::vector<NodeId> made = copied_by(group);
  if (const auto* kernel = std::get_if<FusedGroup>(&group)) {
    made.insert(made.begin(), kernel->nodes.begin(), kernel->nodes.end());
  } else if (const auto* product = std::get_if<ProductGroup>(&group)) {
    for (const ProductGroup::Member& member : product->members) made.push_back(member.result);
  } else {
    made.push_back(std::get<MoveGroup>(group).node);
  }
  return made;
}

std::vector<NodeId> operands_of(const Graph& graph, const Group& group) {
  std::vector<NodeId> operands;
  const auto add = [&](NodeId id) {
    operands.insert(operands.end(), graph[id].operands.begin(), graph[id].operands.end());
  };
  if (const auto* kernel = std::get_if<FusedGroup>(&group)) {
    for (NodeId id : kernel->nodes) add(id);
  } else if (const auto* move = std::get_if<MoveGroup>(&group)) {
    add(move->node);
  }
  return operands;
}

std::vector<NodeId> copied_by(const Group& group) {
  const auto* kernel = std::get_if<FusedGroup>(&group);
  return kernel == nullptr ? std::vector<NodeId>() : kernel->copies;
}

std::vector<NodeId> multiplied_by(const Group& group) {
  std::vector<NodeId> lefts;
  if (const auto* kernel = std::get_if<FusedGroup>(&group)) {
    for (const ProductGroup& product : kernel->products) lefts.push_back(product.left);
  } else if (const auto* product = std::get_if<ProductGroup>(&group)) {
    lefts.push_back(product->left);
  }
  return lefts;
}

}  // namespace rnnc
