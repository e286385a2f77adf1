/// Runs plans of whatever kind on a device, with the interpreter's arguments: those that no program
/// has too.
#pragma once

#include "runtime/backend/backend.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {

/// As `execute_plan`, on the backend's device: arrays are rounded to the buffers' types. Workspace
/// and results are filled with NaN first. What the device refuses is an error.
Result<InterpreterResult> run_plan(Backend& backend, const Plan& plan, const InterpreterArgs& args,
                                   const SequenceArgs& sequences = {});

}  // namespace rnnc::test
