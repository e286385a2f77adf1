// 1. Find who reads each product's result: kernels that take it as a whole, and launches that read
//    it from memory, as an operand of a product or as another value's part.
// 2. The first that reads it takes the product in, if it is a kernel without reductions over rows
//    of the result's length that reads it as a whole, and has room. All others come later, and what
//    they read that kernel stores: it also stores what other kernels would have copied.
// 3. Drop the groups that this leaves empty.
#include "passes/schedule/epilogues.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ir/base/launch_limits.h"
#include "passes/schedule/group_readers.h"

namespace rnnc {
namespace {

class Epilogues {
 public:
  Epilogues(const Graph& graph, const Values& values, ScheduledStage& stage)
      : graph_(graph), values_(values), stage_(stage), readers_(graph, values, stage) {}

  void run() {
    for (Group& group : stage_.groups) {
      auto* product = std::get_if<ProductGroup>(&group);
      if (product == nullptr) continue;
      for (const ProductGroup::Member& member : std::exchange(product->members, {})) {
        FusedGroup* kernel = find_kernel(member.node);
        if (kernel != nullptr && reserve(*kernel, member.node)) {
          take_in(*product, member, *kernel);
        } else {
          product->members.push_back(member);
        }
      }
    }
    drop_empty_groups();
  }

 private:
  /// Of a kernel, as far as launches have room for so many only.
  struct Contents {
    int64_t results = 0;
    int64_t arrays = 0;  // at the most
  };

  FusedGroup* find_kernel(NodeId product) {
    const GroupReaders::Readers& readers = readers_.of(product);
    if (readers.whole.empty()) return nullptr;
    const size_t first = *readers.whole.begin();
    if (!readers.memory.empty() && *readers.memory.begin() <= first) return nullptr;
    auto& kernel = std::get<FusedGroup>(stage_.groups[first]);
    const auto reduces = [this](NodeId id) { return is_reduction(graph_[id].op); };
    const bool fits = kernel.length == element_count(graph_[product].type.shape) &&
                      std::ranges::none_of(kernel.nodes, reduces);
    return fits ? &kernel : nullptr;
  }

  /// Whether the kernel has room for the product; takes it.
  bool reserve(const FusedGroup& kernel, NodeId product) {
    const auto [found, is_new] = contents_.try_emplace(&kernel);
    Contents& contents = found->second;
    if (is_new) contents.arrays = arrays_of(kernel);
    // Two operands, if the kernel has no product with the left one yet, for the result.
    const int64_t arrays = contents.arrays + places_of(product, kernel) + 1;
    if (contents.results == kMostResults || arrays > kMostArrays) return false;
    ++contents.results;
    contents.arrays = arrays;
    return true;
  }

  /// What the kernel reads, and where it stores, at the most.
  int64_t arrays_of(const FusedGroup& kernel) const {
    std::set<NodeId> reads(kernel.copies.begin(), kernel.copies.end());
    int64_t places = 0;
    for (NodeId id : kernel.nodes) {
      for (NodeId operand : graph_[id].operands) {
        const NodeId read = values_.read[operand];
        if (!std::ranges::binary_search(kernel.nodes, read)) reads.insert(read);
      }
      places += places_of(id, kernel);
    }
    for (NodeId id : kernel.copies) places += places_of(id, kernel);
    return std::ssize(reads) + places;
  }

  /// Where a value is stored for its users outside the kernel, at the most: for each of them as
  /// computed, and in the plan's type.
  int64_t places_of(NodeId id, const FusedGroup& kernel) const {
    return 2 * std::ranges::count_if(values_.users[id], [&](NodeId user) {
             return user == kNoNode || !std::ranges::binary_search(kernel.nodes, user);
           });
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
    for (size_t g : readers_.of(member.node).whole) {
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
  const GroupReaders readers_;  // as they were
  std::map<const FusedGroup*, Contents> contents_;
};

}  // namespace

void fuse_epilogues(const Graph& graph, const Values& values, ScheduledStage& stage) {
  if (stage.domain == Domain::Step) Epilogues(graph, values, stage).run();
}

}  // namespace rnnc
