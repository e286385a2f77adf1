/// A plain executor of Plans in host memory, slow and literal: what ir/plan.h says about execution
/// and nothing else. Backends and the planner are compared with it.
#pragma once

#include "ir/interpreter.h"
#include "ir/plan.h"

namespace rnnc {

/// Runs the plan on the interpreter's arguments (`args.batch` is the plan's). Arrays are rounded to
/// the buffers' types, arithmetic to the compute type after each operation. The plan's own memory
/// is filled with NaN first, so that what is read before it is written shows.
InterpreterResult execute_plan(const Plan& plan, const InterpreterArgs& args);

}  // namespace rnnc
