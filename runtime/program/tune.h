/// CompileOptions::tune: of the plans that may be fastest, the one that is on the device.
#pragma once

#include <string>

#include "runtime/backend/backend.h"
#include "runtime/program/planner.h"

namespace rnnc {

struct Tuned {
  PlanChoice choice;
  std::string note = {};  // for people: why it is not tuned; empty: it is
};

/// Remembered by the cache, else measured, and then remembered. `first` is the plan of the options'
/// own choice. That stays where there are no recurrences of class block or dense, where the device
/// takes none of the plans, and where it fails or has no memory for the arrays of a call: then
/// there is a note.
Tuned tune(const ShapePlanner& planner, const Plan& first, Backend& backend,
           const KernelCache& cache);

}  // namespace rnnc
