/// What calls of one step read and write of states, as a check for any device.
#pragma once

#include "ir/graph/graph.h"
#include "runtime/program/program.h"

namespace rnnc::test {

struct OneStepShape {
  int64_t batch = 1;
  int64_t calls = 4;
};

/// Runs a bound graph call by call, of one step each, whose states go from each call to the next: in
/// arrays of their own, in place, in one another's memory, and one element off; from random initial
/// values and from none. All give the same bits, and what the interpreter gives for all steps at
/// once, to a tolerance relative to 1 and each array's largest value. Failures are GoogleTest's.
void check_one_step_calls(const Graph& graph, const CompileOptions& options,
                          const OneStepShape& shape, double tolerance);

}  // namespace rnnc::test
