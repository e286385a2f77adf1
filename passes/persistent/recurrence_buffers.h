/// Buffers that recurrences on the chip need.
#pragma once

#include "ir/plan/plan.h"

namespace rnnc {

/// Gives the launch, whose tile is chosen, its place for what blocks exchange, if it needs one.
void add_exchange(Plan& plan, RecurrenceLaunch& recurrence);

}  // namespace rnnc
