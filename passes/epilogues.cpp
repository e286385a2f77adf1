// 1. Find who reads each product's result: kernels that take it as a whole, and launches that read
//    it from memory, as an operand of a product or as another value's part.
// 2. The first that reads it takes the product in, if it is a kernel without reductions over rows
//    of the result's length that reads it as a whole. All others come later, and what they read
//    that kernel stores: it also stores what other kernels would have copied.
// 3. Drop the groups that this leaves empty.
#include "passes/epilogues.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace rnnc {
namespace {

class Epilogues {
 public:
  Epilogues(const Graph& graph, const Values& values, ScheduledStage& stage)
      : graph_(graph), values_(values), stage_(stage) {}

  void run() {
    find_readers();
    for (Group& group : stage_.groups) {
      auto* product = std::get_if<ProductGroup>(&group);
      if (product == nullptr) continue;
      for (const ProductGroup::Member& member : std::exchange(product->members, {})) {
        FusedGroup* kernel = find_kernel(member.node);
        if (kernel == nullptr) {
          product->members.push_back(member);
        } else {
          take_in(*product, member, *kernel);
        }
      }
    }
    drop_empty_groups();
  }

 private:
  /// By index of the group.
  struct Readers {
    std::set<size_t> whole;   // kernels that load or copy the value
    std::set<size_t> memory;  // launches that read some of it where it lies
  };

  void find_readers() {
    for (size_t g = 0; g < stage_.groups.size(); ++g) {
      if (const auto* kernel = std::get_if<FusedGroup>(&stage_.groups[g])) {
        for (NodeId id : kernel->copies) add_kernel(id, g);
        for (NodeId id : kernel->nodes) {
          for (NodeId operand : graph_[id].operands) add_kernel(operand, g);
        }
      } else if (const auto* product = std::get_if<ProductGroup>(&stage_.groups[g])) {
        readers_[values_.origin[product->left].value].memory.insert(g);
      }
    }
  }

  void add_kernel(NodeId id, size_t group) {
    id = values_.read[id];
    const NodeId origin = values_.origin[id].value;
    Readers& readers = readers_[origin];
    (id == origin ? readers.whole : readers.memory).insert(group);
  }

  FusedGroup* find_kernel(NodeId product) {
    const Readers& readers = readers_[product];
    if (readers.whole.empty()) return nullptr;
    const size_t first = *readers.whole.begin();
    if (!readers.memory.empty() && *readers.memory.begin() <= first) return nullptr;
    auto& kernel = std::get<FusedGroup>(stage_.groups[first]);
    const auto reduces = [this](NodeId id) { return is_reduction(graph_[id].op); };
    const bool fits = kernel.length == element_count(graph_[product].type.shape) &&
                      std::ranges::none_of(kernel.nodes, reduces);
    return fits ? &kernel : nullptr;
  }

  void take_in(const ProductGroup& from, const ProductGroup::Member& member, FusedGroup& kernel) {
    const auto same = [&](const ProductGroup& group) {
      return group.left == from.left && group.blocks == from.blocks;
    };
    auto group = std::ranges::find_if(kernel.products, same);
    if (group == kernel.products.end()) {
      kernel.products.push_back({from.left, {}, from.k, from.rows, from.blocks});
      group = kernel.products.end() - 1;
    }
    group->members.push_back(member);
    for (size_t g : readers_[member.node].whole) {
      std::erase(std::get<FusedGroup>(stage_.groups[g]).copies, member.node);
    }
  }

  void drop_empty_groups() {
    std::erase_if(stage_.groups, [](const Group& group) {
      if (const auto* product = std::get_if<ProductGroup>(&group)) return product->members.empty();
      const auto* kernel = std::get_if<FusedGroup>(&group);
      return kernel != nullptr && kernel->nodes.empty() && kernel->copies.empty() &&
             kernel->products.empty();
    });
  }

  const Graph& graph_;
  const Values& values_;
  ScheduledStage& stage_;
  std::map<NodeId, Readers> readers_;
};

}  // namespace

void fuse_epilogues(const Graph& graph, const Values& values, ScheduledStage& stage) {
  if (stage.domain == Domain::Step) Epilogues(graph, values, stage).run();
}

}  // namespace rnnc
