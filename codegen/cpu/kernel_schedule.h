/// Splits a fused kernel with reductions into traversals over the row.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// One sum, minimum or maximum over the row, gathered during one traversal.
struct RowReduction {
  enum class Kind : uint8_t { Sum, SumOfSquares, Min, Max };
  Kind kind = Kind::Sum;
  uint32_t operand = 0;    // instruction
  uint32_t sum = 0;        // SumOfSquares: the reduction that gives the mean to subtract first
  uint32_t traversal = 0;  // in which it is gathered
};

/// A traversal may use what the reductions of earlier ones gave. A value is computed in the first
/// in which it can be; if a later one needs it too it is kept in scratch, except loads, which are
/// loaded again.
struct KernelSchedule {
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t traversals = 1;
  std::vector<uint32_t> traversal;     // per instruction: when its value is ready
  std::vector<uint32_t> reduction;     // per Reduce instruction: what gives its value, else kNone
  std::vector<uint32_t> scratch_slot;  // per instruction, or kNone
  std::vector<RowReduction> reductions;
  uint32_t scratch_slots = 0;
};

KernelSchedule schedule_kernel(const Kernel& kernel);

/// Elements of a scratch slot: the row, rounded up to whole vectors of any host.
int64_t scratch_slot_elements(const Kernel& kernel);

}  // namespace rnnc
