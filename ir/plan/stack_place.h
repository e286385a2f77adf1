/// How a recurrence may become a side of a stack (ir/plan/plan.h: RecurrenceLaunch), by its values
/// and who uses them (passes/schedule/stacks.h). Plans say so until their stacks are made.
#pragma once

#include <cstdint>
#include <vector>

namespace rnnc {

/// What lies between the recurrence and those just before it and writes none of these buffers, it
/// does not need.
struct StackPlace {
  uint32_t below = 0;  // of the recurrences just before it, so many may be below it
  /// Results of products of what recurrences store. Its kernels alone read them, at their own step:
  /// the products may be theirs.
  std::vector<uint32_t> products = {};
  std::vector<uint32_t> ahead = {};  // what else it needs: made of nothing below it
  friend bool operator==(const StackPlace&, const StackPlace&) = default;
};

}  // namespace rnnc
