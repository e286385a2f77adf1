/// How a recurrence may become a side of a stack (ir/plan/plan.h: RecurrenceLaunch), by its values
/// and who uses them (passes/schedule/stacks.h). Plans say so until their stacks are made.
#pragma once

#include <cstdint>
#include <vector>

namespace rnnc {

/// Of what lies between the recurrence and those just before it, it needs what writes `ahead`,
/// which is made of nothing below it, and its own products (ir/plan/plan.h: Stage::products), which
/// are of what those below it store.
struct StackPlace {
  uint32_t below = 0;  // of the recurrences just before it, so many may be below it
  std::vector<uint32_t> ahead = {};
  friend bool operator==(const StackPlace&, const StackPlace&) = default;
};

}  // namespace rnnc
