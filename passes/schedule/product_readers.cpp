// 1. Of each value, by all groups: the stages whose kernels read some of it, and whether products
//    or moves read it where it lies.
// 2. Of the products of time-parallel stages keep those whose results are for kernels of
//    recurrences alone.
#include "passes/schedule/product_readers.h"

#include <algorithm>
#include <utility>

#include "passes/schedule/group_values.h"

namespace rnnc {
namespace {

struct ValueReaders {
  std::vector<std::set<uint32_t>> kernels;  // per node: stages
  std::vector<bool> in_place;               // per node
};

/// Whether kernels copy a result of a product to where something else than a kernel of its sweep
/// wants it: those read it where it is.
bool is_copied(const Schedule& schedule, NodeId id) {
  const Values& values = schedule.values;
  id = values.read[id];
  return values.is_stored[id] || std::ranges::any_of(values.readers[id], [&](NodeId reader) {
           return schedule.is_late(id, schedule.stage[reader]);
         });
}

ValueReaders find_value_readers(const Graph& graph, const Schedule& schedule) {
  const Values& values = schedule.values;
  ValueReaders readers;
  readers.kernels.resize(graph.nodes.size());
  readers.in_place.resize(graph.nodes.size());
  const auto origin = [&](NodeId id) { return values.origin[values.read[id]].value; };
  for (uint32_t stage = 0; stage < schedule.stages.size(); ++stage) {
    for (const Group& group : schedule.stages[stage].groups) {
      const bool moves = std::holds_alternative<MoveGroup>(group);
      for (NodeId id : operands_of(graph, group)) {
        if (moves) {
          readers.in_place[origin(id)] = true;
        } else {
          readers.kernels[origin(id)].insert(stage);
        }
      }
      for (NodeId id : copied_by(group)) {
        if (is_copied(schedule, id)) readers.kernels[origin(id)].insert(stage);
      }
      for (NodeId id : multiplied_by(group)) readers.in_place[origin(id)] = true;
    }
  }
  return readers;
}

}  // namespace

void find_product_readers(const Graph& graph, Schedule& schedule) {
  const ValueReaders readers = find_value_readers(graph, schedule);
  const auto is_of_recurrence = [&](uint32_t stage) {
    return !schedule.stages[stage].recurrences.empty();
  };
  for (uint32_t stage = 0; stage < schedule.stages.size(); ++stage) {
    if (!is_time_parallel(schedule.stages[stage])) continue;
    const std::vector<Group>& groups = schedule.stages[stage].groups;
    for (size_t group = 0; group < groups.size(); ++group) {
      if (!std::holds_alternative<ProductGroup>(groups[group])) continue;
      std::set<uint32_t> stages;
      bool in_place = false;
      for (NodeId result : made_by(groups[group])) {
        stages.insert(readers.kernels[result].begin(), readers.kernels[result].end());
        in_place = in_place || readers.in_place[result];
      }
      if (in_place || stages.empty() || !std::ranges::all_of(stages, is_of_recurrence)) continue;
      schedule.product_readers.emplace(GroupPlace{stage, group}, std::move(stages));
    }
  }
}

}  // namespace rnnc
