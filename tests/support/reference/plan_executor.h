/// A plain executor of Plans in host memory, slow and literal: what ir/plan/plan.h says about
/// execution and nothing else. Backends and the planner are compared with it.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/interpreter.h"
#include "ir/plan/plan.h"

namespace rnnc {

/// What a call may say about its sequences.
struct SequenceArgs {
  std::vector<int64_t> lengths = {};  // [B]; empty: all are T. Clamped to [0, T]
  std::vector<uint8_t> resets = {};   // [T, B]; empty: none
};

/// Runs the plan on the interpreter's arguments (`args.batch` is the plan's; initial states may be
/// fewer than the plan's, which has implied ones behind the Graph's own). Arrays are rounded to
/// the buffers' types, arithmetic to the compute type after each operation. The plan's own memory
/// is filled with NaN first, so that what is read before it is written shows.
InterpreterResult execute_plan(const Plan& plan, const InterpreterArgs& args,
                               const SequenceArgs& sequences = {});

}  // namespace rnnc
