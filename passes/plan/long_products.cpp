// 1. In a Step stage, find products one behind the other that add up in one place, of one left
//    buffer; put them in the order of their columns.
// 2. Each run of neighbours becomes one product, over weights that lie side by side along k. It
//    adds to what is there only if all of them did.
// 3. Copies of weights that nothing reads any more leave the plan, and so do their buffers.
#include "passes/plan/long_products.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "passes/lower/once_stages.h"
#include "passes/lower/unused_buffers.h"
#include "passes/plan/weights_along_k.h"

namespace rnnc {
namespace {

class LongProducts {
 public:
  explicit LongProducts(Plan& plan) : plan_(plan) {}

  bool run() {
    for (Stage& stage : plan_.stages) {
      if (stage.domain == Domain::Step) merge(stage.launches);
    }
    if (once_.empty()) return false;
    append_once(plan_, once_);
    remove_unread_copies(plan_);
    remove_unused_temporaries(plan_);
    return true;
  }

 private:
  /// A product that may be part of a longer one, or null.
  const GemmLaunch* part(const Launch& launch) const {
    const auto* gemm = std::get_if<GemmLaunch>(&launch);
    if (gemm == nullptr || gemm->transposed || gemm->blocks != 1 || gemm->repeats != 1) {
      return nullptr;
    }
    const Buffer& weight = plan_.buffers[gemm->weight.buffer];
    const bool is_part = gemm->weight.stride == 0 && weight.extent == Extent::Invariant &&
                         weight.dtype == plan_.dtype;
    return is_part ? gemm : nullptr;
  }

  /// Whether they are the same but for k, and where along it they read.
  static bool add_up(const GemmLaunch& one, const GemmLaunch& other) {
    GemmLaunch like = other;
    like.left.column = one.left.column;
    like.weight = one.weight;
    like.k = one.k;
    like.accumulate = one.accumulate;
    return like == one;
  }

  void merge(std::vector<Launch>& launches) {
    std::vector<Launch> merged;
    for (size_t i = 0; i < launches.size();) {
      const GemmLaunch* first = part(launches[i]);
      if (first == nullptr) {
        merged.push_back(std::move(launches[i++]));
        continue;
      }
      std::vector<GemmLaunch> sum = {*first};
      for (++i; i < launches.size(); ++i) {
        const GemmLaunch* next = part(launches[i]);
        if (next == nullptr || !next->accumulate || !add_up(sum[0], *next)) break;
        sum.push_back(*next);
      }
      for (GemmLaunch& product : neighbours_as_one(std::move(sum))) merged.emplace_back(product);
    }
    launches = std::move(merged);
  }

  /// The first of them is the only one that may not add to what is there.
  std::vector<GemmLaunch> neighbours_as_one(std::vector<GemmLaunch> sum) {
    const bool accumulate = sum[0].accumulate;
    std::ranges::sort(sum, {}, [](const GemmLaunch& product) { return product.left.column; });
    std::vector<GemmLaunch> products;
    for (auto begin = sum.begin(); begin != sum.end();) {
      auto end = begin + 1;
      while (end != sum.end() && end->left.column == (end - 1)->left.column + (end - 1)->k) ++end;
      products.push_back(as_one({begin, end}));
      products.back().accumulate = accumulate || products.size() > 1;
      begin = end;
    }
    return products;
  }

  GemmLaunch as_one(const std::vector<GemmLaunch>& parts) {
    GemmLaunch whole = parts[0];
    if (parts.size() == 1) return whole;
    std::vector<SummedWeight> weights;
    whole.k = 0;
    for (const GemmLaunch& product : parts) {
      weights.push_back({product.weight, product.k});
      whole.k += product.k;
    }
    whole.weight = {.buffer = weights_along_k(plan_, weights, whole.n, once_)};
    return whole;
  }

  Plan& plan_;
  std::vector<Launch> once_;
};

}  // namespace

bool run_long_products(Plan& plan, const Machine& machine) {
  if (machine.kind == Machine::Kind::Cpu) return false;
  return LongProducts(plan).run();
}

}  // namespace rnnc
