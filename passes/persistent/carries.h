/// States that recurrences on the chip keep in registers have no place in memory for each step.
#pragma once

#include "ir/plan/plan.h"

namespace rnnc {

/// Of a state that its recurrence alone reads, each time by the thread that stored it, one row of
/// each sequence stays in memory: what the first step of a chunk loads, and the last one stores.
/// Chunk buffers of one earlier step become Batch buffers.
void run_carries(Plan& plan);

}  // namespace rnnc
