/// The two halves of a derivative as plans, run by whatever runs plans, against the interpreter.
#pragma once

#include <functional>
#include <optional>

#include "passes/build_plan.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {

struct HalfCheck {
  int64_t steps = 7;
  int64_t batch = 3;
  int64_t chunk = 3;
  uint64_t seed = 1;
  DType dtype = DType::f64;
  std::optional<DType> param_dtype = {};  // if it is another
  bool lengths = false;
  bool resets = false;
  bool given_states = false;
  PassSet passes = PassSet::all();
  Machine machine = {};
  bool tf32 = false;
  Strategy strategy = Strategy::Any;
  int64_t tile_rank = 0;
  /// Whatever cell it is: where its recurrences cannot run by `strategy` they run by any, and
  /// errors may be some times what rounding each number that goes in does to results.
  bool any_cell = false;
};

/// `execute_plan`, or the like on a device.
using RunPlan = std::function<Result<InterpreterResult>(const Plan&, const InterpreterArgs&,
                                                        const SequenceArgs&)>;

/// Lowers and differentiates the Graph, and plans and runs each half on random numbers.
/// Expectations of gtest fail where a half has no plan, or where it computes something else than
/// the interpreter.
void check_halves(const Graph& graph, const HalfCheck& check, const RunPlan& run);

}  // namespace rnnc::test
