// 1. Count the uses of each value.
// 2. In each kernel with products, from the first value to the last: a sum of two of their results
//    that have no other use becomes the result of both. So sums of sums follow.
// 3. Of the other products: two groups go together if each result of the one has no use but a sum
//    with one of the other that has none. The later one, in the order of the first, adds to its
//    results. What the sums' kernel would have stored it copies. Again, until nothing changes.
#include "passes/sums.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace rnnc {
namespace {

class Sums {
 public:
  Sums(const Graph& graph, ScheduledStage& stage)
      : graph_(graph), stage_(stage), users_(users_of(graph)) {}

  void run() {
    for (Group& group : stage_.groups) {
      if (auto* kernel = std::get_if<FusedGroup>(&group)) add_in_kernel(*kernel);
    }
    while (join_any()) {
    }
  }

 private:
  /// The sum that is all that uses the value.
  std::optional<NodeId> sum_of(NodeId id) const {
    if (users_[id].size() != 1 || users_[id][0] == kNoNode) return {};
    const NodeId user = users_[id][0];
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
    std::vector<NodeId> results;
    for (const ProductGroup& group : kernel.products) {
      for (const ProductGroup::Member& member : group.members) results.push_back(member.result);
    }
    const auto is_sum = [&](NodeId id) {
      const auto first = std::ranges::find_if(results, [&](NodeId r) { return sum_of(r) == id; });
      if (first == results.end()) return false;
      const NodeId other = partner_of(*first, id);
      if (std::ranges::find(results, other) == results.end()) return false;
      rename(kernel.products, *first, id);
      rename(kernel.products, other, id);
      std::ranges::replace(results, *first, id);
      std::ranges::replace(results, other, id);
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

  bool join_any() {
    for (size_t b = 0; b < stage_.groups.size(); ++b) {
      for (size_t a = 0; a < b; ++a) {
        const auto* first = std::get_if<ProductGroup>(&stage_.groups[a]);
        const auto* second = std::get_if<ProductGroup>(&stage_.groups[b]);
        if (first == nullptr || second == nullptr) continue;
        if (first->accumulates || second->accumulates) continue;
        const std::vector<Sum> sums = sums_of(*first, *second);
        if (sums.empty()) continue;
        join(sums);
        return true;
      }
    }
    return false;
  }

  /// One for each member of the first, or none if they do not line up.
  std::vector<Sum> sums_of(const ProductGroup& first, const ProductGroup& second) {
    std::vector<Sum> sums;
    for (const ProductGroup::Member& member : first.members) {
      const std::optional<NodeId> sum = sum_of(member.result);
      if (!sum || !is_computed_here(*sum)) return {};
      const NodeId partner = partner_of(member.result, *sum);
      if (!has(second, partner)) return {};
      sums.push_back({*sum, member.result, partner});
    }
    return sums.size() == second.members.size() ? sums : std::vector<Sum>();
  }

  static bool has(const ProductGroup& group, NodeId result) {
    return std::ranges::find(group.members, result, &ProductGroup::Member::result) !=
           group.members.end();
  }

  bool is_computed_here(NodeId id) {
    return std::ranges::any_of(kernels(), [id](const FusedGroup* kernel) {
      return std::ranges::binary_search(kernel->nodes, id);
    });
  }

  /// Makes all products of the sums' right sides add to the left ones.
  void join(const std::vector<Sum>& sums) {
    const auto place = [&](const ProductGroup::Member& member) {
      return std::ranges::find(sums, member.result, &Sum::right) - sums.begin();
    };
    for (Group& group : stage_.groups) {
      auto* product = std::get_if<ProductGroup>(&group);
      if (product == nullptr) continue;
      if (has(*product, sums[0].right)) {
        std::ranges::sort(product->members, {}, place);
        product->accumulates = true;
      }
      for (const Sum& sum : sums) {
        rename(*product, sum.left, sum.id);
        rename(*product, sum.right, sum.id);
      }
    }
    for (FusedGroup* kernel : kernels()) {
      for (const Sum& sum : sums) {
        std::erase(kernel->copies, sum.left);  // sums themselves
        std::erase(kernel->copies, sum.right);
        if (std::erase(kernel->nodes, sum.id) > 0) kernel->copies.push_back(sum.id);
      }
    }
  }

  std::vector<FusedGroup*> kernels() {
    std::vector<FusedGroup*> result;
    for (Group& group : stage_.groups) {
      if (auto* kernel = std::get_if<FusedGroup>(&group)) result.push_back(kernel);
    }
    return result;
  }

  const Graph& graph_;
  ScheduledStage& stage_;
  std::vector<std::vector<NodeId>> users_;  // per node; kNoNode: a state or an output
};

}  // namespace

void sum_products(const Graph& graph, ScheduledStage& stage) {
  if (stage.domain != Domain::Once) Sums(graph, stage).run();
}

}  // namespace rnnc
