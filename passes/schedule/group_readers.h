/// Which groups of a stage read each value, and how.
#pragma once

#include <map>
#include <set>

#include "passes/schedule/schedule.h"

namespace rnnc {

/// Of a stage as it was when this was made.
class GroupReaders {
 public:
  /// By index of the group.
  struct Readers {
    std::set<size_t> whole;   // kernels that load or copy the value
    std::set<size_t> memory;  // launches that read some of it where it lies
  };

  GroupReaders(const Graph& graph, const Values& values, const ScheduledStage& stage);

  const Readers& of(NodeId value) const;

 private:
  void add_kernel(const Values& values, NodeId id, size_t group);

  std::map<NodeId, Readers> readers_;
};

}  // namespace rnnc
