/// CompileOptions::tune: of the tiles that the cost model likes best, the one that is fastest on
/// the device.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/backend.h"
#include "runtime/planner.h"

namespace rnnc {

struct TunedTile {
  int64_t rank = 0;
  std::string note = {};  // for people: why it is not tuned; empty: it is
};

/// Remembered by the cache, else measured, and then remembered. `first` is the plan of rank 0. That
/// stays where there are no resident recurrences, where the device takes none of the tiles, and
/// where it fails or has no memory for the arrays of a call: then there is a note.
TunedTile tune_tile(const Planner& planner, const PlanShape& shape, const Plan& first,
                    Backend& backend, const KernelCache& cache);

}  // namespace rnnc
