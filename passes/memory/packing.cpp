// 1. Lifetimes that are placed one after the other, each as low as those before it allow, give a
//    packing for every order. Try some orders that tend to be good.
// 2. If none of them is as small as can be: of up to 8 lifetimes try all orders, among which is
//    that of the offsets of a best packing. Of more, take the best order so far, move what lies
//    topmost to the front, and try again.
#include "passes/memory/packing.h"

#include <algorithm>
#include <numeric>

namespace rnnc {
namespace {

constexpr size_t kMostForAllOrders = 8;
constexpr size_t kMostComparisons = 1'000'000;

using Order = std::vector<uint32_t>;

class Packer {
 public:
  explicit Packer(const std::vector<Lifetime>& lifetimes)
      : lifetimes_(lifetimes), least_(live_bytes(lifetimes)) {}

  Packing run() {
    Order order(lifetimes_.size());
    std::iota(order.begin(), order.end(), 0U);
    try_order(order);
    try_sorted(order, [&](uint32_t i) { return -lifetimes_[i].bytes; });
    try_sorted(order, [&](uint32_t i) { return -length(i); });
    try_sorted(order, [&](uint32_t i) { return -length(i) * lifetimes_[i].bytes; });
    try_sorted(order, [&](uint32_t i) { return lifetimes_[i].begin; });
    if (lifetimes_.size() <= kMostForAllOrders) {
      try_all(std::move(order));
    } else {
      improve();
    }
    return std::move(best_);
  }

 private:
  int64_t length(uint32_t i) const { return int64_t{lifetimes_[i].end} - lifetimes_[i].begin + 1; }

  bool is_done() const { return !best_order_.empty() && best_.bytes == least_; }

  template <typename Key>
  void try_sorted(Order& order, Key key) {
    std::ranges::stable_sort(order, {}, key);
    try_order(order);
  }

  void try_all(Order order) {
    std::ranges::sort(order);
    do {
      try_order(order);
    } while (!is_done() && std::ranges::next_permutation(order).found);
  }

  void improve() {
    const size_t tries = kMostComparisons / (lifetimes_.size() * lifetimes_.size());
    Order order = best_order_;
    Packing packing = best_;
    for (size_t i = 0; i < tries && !is_done(); ++i) {
      const auto top = std::ranges::max_element(order, {}, [&](uint32_t lifetime) {
        return packing.offsets[lifetime] + lifetimes_[lifetime].bytes;
      });
      std::rotate(order.begin(), top, top + 1);
      packing = try_order(order);
    }
  }

  /// The packing of an order, kept if it is the best.
  Packing try_order(const Order& order) {
    if (is_done()) return best_;
    Packing packing{std::vector<int64_t>(lifetimes_.size(), 0), 0};
    placed_.clear();
    for (const uint32_t i : order) {
      const int64_t begin = lowest(lifetimes_[i]);
      const int64_t end = begin + lifetimes_[i].bytes;
      packing.offsets[i] = begin;
      packing.bytes = std::max(packing.bytes, end);
      const auto below = [&](const Placed& other) { return other.begin <= begin; };
      placed_.insert(std::ranges::partition_point(placed_, below), {lifetimes_[i], begin, end});
    }
    if (best_order_.empty() || packing.bytes < best_.bytes) {
      best_order_ = order;
      best_ = packing;
    }
    return packing;
  }

  int64_t lowest(const Lifetime& lifetime) const {
    int64_t offset = 0;
    for (const Placed& other : placed_) {
      if (!overlap(lifetime, other.time)) continue;
      if (other.begin >= offset + lifetime.bytes) break;
      offset = std::max(offset, other.end);
    }
    return offset;
  }

  /// What a lifetime is compared with, side by side in memory: of thousands, every pair is.
  struct Placed {
    UseTime time;
    int64_t begin;  // bytes
    int64_t end;
  };

  const std::vector<Lifetime>& lifetimes_;
  int64_t least_;
  std::vector<Placed> placed_;  // by offset
  Order best_order_;
  Packing best_;
};

}  // namespace

Packing pack(const std::vector<Lifetime>& lifetimes) {
  return Packer(lifetimes).run();
}

}  // namespace rnnc
