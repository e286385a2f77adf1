/// Plans of cells with loops over arrays: how long their kernels are, and that they compute what the
/// interpreter does.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "passes/build_plan.h"
#include "passes/gradient/differentiate.h"
#include "passes/graph/pipeline.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/gradients/half_check.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {

inline size_t instructions(const Plan& plan) {
  size_t count = 0;
  for (const Kernel& kernel : plan.kernels) count += kernel.body.size();
  return count;
}

inline size_t loops(const Plan& plan) {
  size_t count = 0;
  for (const Kernel& kernel : plan.kernels) count += kernel.loops.size();
  return count;
}

inline Plan rerolled_plan(const Graph& graph, const Machine& machine,
                          PassSet passes = PassSet::all(), int64_t chunk = 0) {
  Result<Plan> plan = build_plan(graph, {.dtype = DType::f32,
                                         .batch = 2,
                                         .max_steps = 50,
                                         .chunk = chunk,
                                         .passes = passes,
                                         .machine = machine});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

/// Of a cell's plan for a CPU, in chunks of several lengths.
inline void expect_steps_of_interpreter(const Graph& graph, int64_t steps, bool given_states) {
  const InterpreterArgs args = random_args(graph, steps, 2, 3, given_states);
  const InterpreterResult expected = interpret(graph, args);
  for (const int64_t chunk : {1, 3, 50}) {
    SCOPED_TRACE(fmt::format("chunk {}", chunk));
    const Plan plan = rerolled_plan(graph, cpu_machine(4), PassSet::all(), chunk);
    const InterpreterResult actual = execute_plan(plan, args);
    for (size_t i = 0; i < expected.outputs.size(); ++i) {
      EXPECT_LE(error_of(actual.outputs[i], expected.outputs[i]), 3e-5);
    }
    for (size_t i = 0; i < expected.final_states.size(); ++i) {
      EXPECT_LE(error_of(actual.final_states[i], expected.final_states[i]), 3e-5);
    }
  }
}

/// Launches that go over all steps.
inline size_t loops_over_steps(const Plan& plan) {
  size_t count = 0;
  for (const Stage& stage : plan.stages) {
    for (const Launch& launch : stage.launches) {
      if (std::holds_alternative<LoopLaunch>(launch)) ++count;
    }
  }
  return count;
}

/// Of a cell's backward half, whose plan for a CPU it gives.
inline Plan expect_gradients_of_interpreter(Graph graph) {
  const Status lowered = run_pipeline(graph, {.training = true});
  RNNC_CHECK(lowered.has_value(), "{}", lowered.error().message);
  const Graph half = differentiate(graph, DifferentiateOptions::all(graph, {})).backward;
  Plan plan = rerolled_plan(half, cpu_machine(4));
  const InterpreterArgs args = random_args(half, 5, 2, 3, false);
  const InterpreterResult expected = interpret(half, args);
  const InterpreterResult actual = execute_plan(plan, args);
  for (size_t i = 0; i < expected.outputs.size(); ++i) {
    EXPECT_LE(error_of(actual.outputs[i], expected.outputs[i]), 1e-4) << half.outputs[i].name;
  }
  for (size_t i = 0; i < expected.results.size(); ++i) {
    EXPECT_LE(error_of(actual.results[i], expected.results[i]), 1e-4) << half.results[i].name;
  }
  return plan;
}

/// What is drawn with a cell: steps, chunks, lengths or resets, states, a machine of either kind.
inline HalfCheck draw_of(uint64_t seed) {
  return {.steps = static_cast<int64_t>(1 + seed % 6),
          .batch = 2,
          .chunk = static_cast<int64_t>(1 + seed % 4),
          .seed = seed,
          .dtype = DType::f32,
          .lengths = seed % 4 == 1,
          .resets = seed % 4 >= 2,
          .given_states = seed % 3 == 0,
          .machine = seed % 2 == 0 ? cpu_machine(4) : h200_machine()};
}

}  // namespace rnnc::test
