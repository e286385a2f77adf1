#include "passes/persistent/merge_sums.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "passes/plan/weights_along_k.h"

namespace rnnc {
namespace {

using Product = FusedLaunch::Product;

class MergeSums {
 public:
  explicit MergeSums(Plan& plan) : plan_(plan) {}

  std::vector<Launch> run(std::vector<FusedLaunch>& phases) {
    for (FusedLaunch& phase : phases) merge(phase);
    return std::move(once_);
  }

 private:
  /// What products of one sum over one buffer have in common: results, and where they read. Of
  /// several blocks each is alone.
  using Common = std::tuple<uint32_t, uint32_t, BufferId, int64_t, uint32_t, size_t>;
  static Common common_of(const FusedLaunch& phase, size_t index) {
    const Product& product = phase.products[index];
    const Access& left = product.left;
    return {product.first_argument,
            product.members,
            left.buffer,
            left.stride,
            left.delay,
            product.blocks == 1 ? 0 : index + 1};
  }

  void merge(FusedLaunch& phase) {
    std::map<Common, std::vector<Product>> sums;
    std::vector<Common> order;
    for (size_t i = 0; i < phase.products.size(); ++i) {
      const auto [found, fresh] = sums.try_emplace(common_of(phase, i));
      if (fresh) order.push_back(found->first);
      found->second.push_back(phase.products[i]);
    }
    std::vector<Product> products;
    for (const Common& common : order) {
      std::vector<Product>& parts = sums.at(common);
      std::ranges::sort(parts, {}, [](const Product& product) { return product.left.column; });
      const int64_t rows = plan_.kernels[phase.kernel].length * parts[0].members;
      for (auto first = parts.begin(); first != parts.end();) {
        auto last = first + 1;
        while (last != parts.end() &&
               last->left.column == (last - 1)->left.column + (last - 1)->k) {
          ++last;
        }
        products.push_back(merged({first, last}, rows));
        first = last;
      }
    }
    phase.products = std::move(products);
  }

  /// Neighbours, in order, whose weights have so many rows.
  Product merged(std::span<const Product> parts, int64_t rows) {
    Product whole = parts[0];
    if (parts.size() == 1) return whole;
    whole.k = 0;
    std::vector<SummedWeight> weights;
    for (const Product& part : parts) {
      whole.k += part.k;
      weights.push_back({part.weight, part.k});
    }
    whole.weight = {.buffer = weights_along_k(plan_, weights, rows, once_)};
    return whole;
  }

  Plan& plan_;
  std::vector<Launch> once_;
};

}  // namespace

std::vector<Launch> merge_sums(Plan& plan, std::vector<FusedLaunch>& phases) {
  return MergeSums(plan).run(phases);
}

}  // namespace rnnc
