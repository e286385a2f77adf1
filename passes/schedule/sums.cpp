// 1. In each kernel with products, from the first value to the last: a sum of two of their results
//    that have no other use becomes the result of both. So sums of sums follow.
// 2. Of the other products: two groups go together if each result of the one has no use but a sum
//    with one of the other that has none. The later one, in the order of the first, adds to its
//    results. What the sums' kernel would have stored it copies. Again, until nothing changes.
#include "passes/schedule/sums.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace rnnc {
namespace {

class Sums {
 public:
  Sums(const Graph& graph, const Values& values, ScheduledStage& stage)
      : graph_(graph), values_(values), stage_(stage), in_kernel_(graph.nodes.size(), false) {}

  void run() {
    for (Group& group : stage_.groups) {
      auto* kernel = std::get_if<FusedGroup>(&group);
      if (kernel == nullptr) continue;
      add_in_kernel(*kernel);
      for (NodeId id : kernel->nodes) in_kernel_[id] = true;
    }
    join_all();
  }

 private:
  /// The sum that is all that uses the value.
  std::optional<NodeId> sum_of(NodeId id) const {
    if (values_.users[id].size() != 1 || values_.users[id][0] == kNoNode) return {};
    const NodeId user = values_.users[id][0];
    if (graph_[user].op != Op::Add) return {};
    return user;
  }

  /// The other one of a sum's operands, if that has no other use either.
  NodeId partner_of(NodeId id, NodeId sum) const {
    const std::vector<NodeId>& operands = graph_[sum].operands;
    const NodeId partner = operands[operands[0] == id ? 1 : 0];
    return sum_of(partner) ? partner : kNoNode;
  }

  // ---- In a kernel's own launch ----

  void add_in_kernel(FusedGroup& kernel) const {
    std::unordered_set<NodeId> results;
    for (const ProductGroup& group : kernel.products) {
      for (const ProductGroup::Member& member : group.members) results.insert(member.result);
    }
    const auto is_sum = [&](NodeId id) {
      const std::vector<NodeId>& operands = graph_[id].operands;
      const auto is_part = [&](NodeId o) { return results.contains(o) && sum_of(o) == id; };
      if (graph_[id].op != Op::Add || !std::ranges::all_of(operands, is_part)) return false;
      for (NodeId operand : operands) {
        rename(kernel.products, operand, id);
        results.erase(operand);
      }
      results.insert(id);
      return true;
    };
    std::erase_if(kernel.nodes, is_sum);
    put_in_order(kernel.products);
  }

  static void rename(std::vector<ProductGroup>& groups, NodeId from, NodeId to) {
    for (ProductGroup& group : groups) rename(group, from, to);
  }

  static void rename(ProductGroup& group, NodeId from, NodeId to) {
    for (ProductGroup::Member& member : group.members) {
      if (member.result == from) member.result = to;
    }
  }

  /// Members in the order in which results first appear.
  static void put_in_order(std::vector<ProductGroup>& groups) {
    std::vector<NodeId> order;
    const auto place = [&](const ProductGroup::Member& member) {
      return std::ranges::find(order, member.result) - order.begin();
    };
    for (ProductGroup& group : groups) {
      for (const ProductGroup::Member& member : group.members) {
        if (std::ranges::find(order, member.result) == order.end()) order.push_back(member.result);
      }
      std::ranges::stable_sort(group.members, {}, place);
    }
  }

  // ---- Launches of their own ----

  struct Sum {
    NodeId id = kNoNode;
    NodeId left = kNoNode;
    NodeId right = kNoNode;
  };

  void join_all() {
    for (size_t i = 0; i < stage_.groups.size(); ++i) add_results(i);
    for (size_t i = 0; i < stage_.groups.size(); ++i) {
      // What it has become a part of may be part of another sum with what comes before it.
      for (std::optional<size_t> group = i; group;) group = join_partner(*group, i);
    }
  }

  /// Of those who do not add to results of others.
  void add_results(size_t index) {
    const auto* group = std::get_if<ProductGroup>(&stage_.groups[index]);
    if (group == nullptr) return;
    for (const ProductGroup::Member& member : group->members) group_of_[member.result] = index;
  }

  /// Joins a group with the one that has the other sides of its sums, if that is not behind `last`.
  /// The number of the earlier one, whose results are the sums now.
  std::optional<size_t> join_partner(size_t index, size_t last) {
    const auto* group = std::get_if<ProductGroup>(&stage_.groups[index]);
    if (group == nullptr || group->accumulates) return {};
    const NodeId result = group->members[0].result;
    const std::optional<NodeId> sum = sum_of(result);
    const auto found = sum ? group_of_.find(partner_of(result, *sum)) : group_of_.end();
    if (found == group_of_.end() || found->second == index || found->second > last) return {};
    const auto [a, b] = std::minmax(index, found->second);
    const std::vector<Sum> sums = sums_of(product(a), product(b));
    if (sums.empty()) return {};
    join(sums);
    add_results(a);
    return a;
  }

  ProductGroup& product(size_t index) { return std::get<ProductGroup>(stage_.groups[index]); }

  /// One for each member of the first, or none if they do not line up.
  std::vector<Sum> sums_of(const ProductGroup& first, const ProductGroup& second) const {
    if (first.members.size() != second.members.size()) return {};
    std::vector<Sum> sums;
    for (const ProductGroup::Member& member : first.members) {
      const std::optional<NodeId> sum = sum_of(member.result);
      if (!sum || !in_kernel_[*sum]) return {};
      const NodeId partner = partner_of(member.result, *sum);
      if (!has(second, partner)) return {};
      sums.push_back({*sum, member.result, partner});
    }
    return sums;
  }

  static bool has(const ProductGroup& group, NodeId result) {
    return std::ranges::find(group.members, result, &ProductGroup::Member::result) !=
           group.members.end();
  }

  /// Makes all products of the sums' right sides add to the left ones.
  void join(const std::vector<Sum>& sums) {
    const auto place = [&](const ProductGroup::Member& member) {
      return std::ranges::find(sums, member.result, &Sum::right) - sums.begin();
    };
    for (Group& group : stage_.groups) {
      if (auto* product = std::get_if<ProductGroup>(&group)) {
        if (has(*product, sums[0].right)) {
          std::ranges::sort(product->members, {}, place);
          product->accumulates = true;
        }
        for (const Sum& sum : sums) {
          rename(*product, sum.left, sum.id);
          rename(*product, sum.right, sum.id);
        }
      } else if (auto* kernel = std::get_if<FusedGroup>(&group)) {
        for (const Sum& sum : sums) {
          std::erase(kernel->copies, sum.left);  // sums themselves
          std::erase(kernel->copies, sum.right);
          if (std::erase(kernel->nodes, sum.id) > 0) kernel->copies.push_back(sum.id);
        }
      }
    }
  }

  const Graph& graph_;
  const Values& values_;
  ScheduledStage& stage_;
  std::vector<bool> in_kernel_;                  // per node: what kernels compute
  std::unordered_map<NodeId, size_t> group_of_;  // by result: of products that add to no other
};

}  // namespace

void sum_products(const Graph& graph, const Values& values, ScheduledStage& stage) {
  if (is_of_sweeps(stage.domain)) Sums(graph, values, stage).run();
}

}  // namespace rnnc
