#include "passes/schedule/group_readers.h"

namespace rnnc {

GroupReaders::GroupReaders(const Graph& graph, const Values& values, const ScheduledStage& stage) {
  const auto add_product = [&](const ProductGroup& product, size_t group) {
    readers_[values.origin[product.left].value].memory.insert(group);
  };
  for (size_t g = 0; g < stage.groups.size(); ++g) {
    if (const auto* kernel = std::get_if<FusedGroup>(&stage.groups[g])) {
      for (NodeId id : kernel->copies) add_kernel(values, id, g);
      for (NodeId id : kernel->nodes) {
        for (NodeId operand : graph[id].operands) add_kernel(values, operand, g);
      }
      for (const ProductGroup& product : kernel->products) add_product(product, g);
    } else if (const auto* product = std::get_if<ProductGroup>(&stage.groups[g])) {
      add_product(*product, g);
    }
  }
}

const GroupReaders::Readers& GroupReaders::of(NodeId value) const {
  static const Readers kNone;
  const auto found = readers_.find(value);
  return found == readers_.end() ? kNone : found->second;
}

void GroupReaders::add_kernel(const Values& values, NodeId id, size_t group) {
  id = values.read[id];
  const NodeId origin = values.origin[id].value;
  Readers& readers = readers_[origin];
  (id == origin ? readers.whole : readers.memory).insert(group);
}

}  // namespace rnnc
