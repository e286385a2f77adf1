/// Buffers of recurrences that run on the chip: what passes over them leave behind, and need.
#pragma once

#include "ir/plan/plan.h"

namespace rnnc {

/// Gives the launch, whose tile is chosen, its place for what blocks exchange, if it needs one.
void add_exchange(Plan& plan, RecurrenceLaunch& recurrence);

/// Results of products that phases have absorbed lie nowhere any more.
void remove_unused_temporaries(Plan& plan);

}  // namespace rnnc
