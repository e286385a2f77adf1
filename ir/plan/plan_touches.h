/// What launches read and write, for whoever reasons about order, lifetimes or bytes.
#pragma once

#include <algorithm>
#include <set>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// One array that a launch reads or writes: `count` elements of each row from `access` on. The rows
/// of weights are one, and so are those of copies without strides.
struct Touch {
  Access access;
  int64_t count = 0;
  bool write = false;
  int64_t k = 1;  // of a product's weight: elements of one of its rows
};

/// Reads first; of a recurrence, phase by phase. A product that accumulates reads what it writes,
/// and a loop its carries.
std::vector<Touch> touches(const Plan& plan, const Launch& launch);
std::vector<Touch> touches(const Plan& plan, const ElementwiseLaunch& launch);

/// Whether some buffer is in both.
inline bool intersect(const std::set<BufferId>& a, const std::set<BufferId>& b) {
  return std::ranges::any_of(a, [&](BufferId id) { return b.contains(id); });
}

}  // namespace rnnc
