#include "passes/schedule/group_readers.h"

#include "passes/schedule/group_values.h"

namespace rnnc {

GroupReaders::GroupReaders(const Graph& graph, const Values& values, const ScheduledStage& stage) {
  for (size_t g = 0; g < stage.groups.size(); ++g) {
    const Group& group = stage.groups[g];
    if (std::holds_alternative<FusedGroup>(group)) {
      for (NodeId id : copied_by(group)) add_kernel(values, id, g);
      for (NodeId id : operands_of(graph, group)) add_kernel(values, id, g);
    }
    for (NodeId id : multiplied_by(group)) readers_[values.origin[id].value].memory.insert(g);
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
