#include "passes/persistent/merge_sums.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "ir/plan/buffer_uses.h"

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
    for (const Product& part : parts) whole.k += part.k;
    whole.weight = {.buffer = weights_along_k(parts, rows, whole.k)};
    return whole;
  }

  BufferId weights_along_k(std::span<const Product> parts, int64_t rows, int64_t k) {
    const BufferId along = add_buffer(parts, rows * k);
    std::vector<CopyLaunch> turned;
    for (const Product& part : parts) {
      if (const CopyLaunch* copy = turned_copy(part, rows)) turned.push_back(*copy);
    }
    if (turned.size() == parts.size()) {
      stack_and_turn(turned, add_buffer(parts, rows * k), along);
      return along;
    }
    Access target = {.buffer = along, .stride = k};
    for (const Product& part : parts) {
      CopyLaunch copy{.source = part.weight, .target = target, .rows = rows, .columns = part.k};
      copy.source.stride = part.k;
      once_.emplace_back(copy);
      target.column += part.k;
    }
    return along;
  }

  /// Weights that are there by rows of k are stacked as they are, and turned in one piece.
  void stack_and_turn(std::span<const CopyLaunch> parts, BufferId stack, BufferId along) {
    const int64_t rows = parts[0].columns;
    Access target = {.buffer = stack};
    for (const CopyLaunch& part : parts) {
      once_.emplace_back(
          CopyLaunch{.source = part.source, .target = target, .rows = part.rows, .columns = rows});
      target.column += part.rows * rows;
    }
    once_.emplace_back(CopyLaunch{.source = {.buffer = stack},
                                  .target = {.buffer = along},
                                  .rows = target.column / rows,
                                  .columns = rows,
                                  .transposed = true});
  }

  BufferId add_buffer(std::span<const Product> parts, int64_t width) {
    Buffer buffer{.name = "",
                  .dtype = plan_.dtype,
                  .placement = Placement::Program,
                  .extent = Extent::Invariant,
                  .width = width};
    for (const Product& part : parts) {
      buffer.name += (buffer.name.empty() ? "" : "|") + plan_.buffers[part.weight.buffer].name;
    }
    plan_.buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(plan_.buffers.size() - 1);
  }

  /// The copy that made just this weight by turning one, or null.
  const CopyLaunch* turned_copy(const Product& part, int64_t rows) const {
    for (const Stage& stage : plan_.stages) {
      if (stage.domain != Domain::Once) continue;
      for (const Launch& launch : stage.launches) {
        const auto* copy = std::get_if<CopyLaunch>(&launch);
        const bool is_it = copy != nullptr && copy->transposed &&
                           copy->target.buffer == part.weight.buffer &&
                           copy->target.column == part.weight.column && copy->rows == part.k &&
                           copy->columns == rows && copy->source.stride == 0;
        if (is_it) return copy;
      }
    }
    return nullptr;
  }

  Plan& plan_;
  std::vector<Launch> once_;
};

}  // namespace

std::vector<Launch> merge_sums(Plan& plan, std::vector<FusedLaunch>& phases) {
  return MergeSums(plan).run(phases);
}

void remove_unread_copies(Plan& plan) {
  const BufferUses uses(plan);
  for (Stage& stage : plan.stages) {
    if (stage.domain != Domain::Once) continue;
    std::erase_if(stage.launches, [&](const Launch& launch) {
      const auto* copy = std::get_if<CopyLaunch>(&launch);
      return copy != nullptr && plan.buffers[copy->target.buffer].role == Role::Temporary &&
             !uses.is_read(copy->target.buffer);
    });
  }
}

}  // namespace rnnc
