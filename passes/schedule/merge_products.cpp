// 1. Products with one left operand are ready at the same time: those that can merge stand side by
//    side.
// 2. In each row of products, add each to the first one with its left operand, blocks and, if these
//    are several, rows per block.
#include "passes/schedule/merge_products.h"

#include <map>
#include <tuple>
#include <utility>

namespace rnnc {

void merge_products(ScheduledStage& stage) {
  if (!is_of_sweeps(stage.domain)) return;
  std::vector<Group> merged;
  std::map<std::tuple<NodeId, int64_t, int64_t>, size_t> open;
  for (Group& group : stage.groups) {
    auto* product = std::get_if<ProductGroup>(&group);
    if (product == nullptr) {
      open.clear();
    } else {
      const ProductGroup::Member& member = product->members[0];
      const std::tuple key(product->left, product->blocks, product->blocks > 1 ? member.n : 0);
      const auto [found, fresh] = open.emplace(key, merged.size());
      if (!fresh) {
        std::get<ProductGroup>(merged[found->second]).members.push_back(member);
        continue;
      }
    }
    merged.push_back(std::move(group));
  }
  stage.groups = std::move(merged);
}

}  // namespace rnnc
