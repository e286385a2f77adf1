/// What thread blocks of a RecurrenceLaunch hand to each other for reductions over rows.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// A block's part of reductions of one vector: the sum and the squared deviations from the mean, or
/// an extremum. Means and variances of the same vector share one.
struct RecurrencePartial {
  enum class Kind : uint8_t { Moments, Least, Greatest };
  Kind kind = Kind::Moments;
  uint32_t value = 0;  // instruction
  int level = 0;       // of the reduction (reduction_levels)
  friend bool operator==(const RecurrencePartial&, const RecurrencePartial&) = default;
};

/// What a Reduce instruction of the kernel needs.
RecurrencePartial partial_of(const Kernel& kernel, uint32_t reduction, int level);

/// Those of a kernel, each once, by level.
std::vector<RecurrencePartial> partials_of(const Kernel& kernel);

}  // namespace rnnc
