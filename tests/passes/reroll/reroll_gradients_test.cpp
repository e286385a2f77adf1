// A kept loop's backward half is a loop, too: neither half's code grows with the arrays, and both
// compute what the interpreter does.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "frontend/unit.h"
#include "passes/build_plan.h"
#include "passes/gradient/differentiate.h"
#include "passes/graph/pipeline.h"
#include "tests/passes/reroll/rerolled_plans.h"
#include "tests/support/cells/array_cells.h"
#include "tests/support/gradients/half_check.h"

namespace rnnc::test {
namespace {

struct Halves {
  Plan forward;
  Plan backward;
};

Plan plan_of(Graph half, const Machine& machine) {
  RNNC_CHECK(run_simplifications(half, {}).has_value(), "not simplified");
  Result<Plan> plan =
      plan_graph(half, {.dtype = DType::f32, .batch = 2, .max_steps = 50, .machine = machine});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

Halves halves_of(Graph graph, const Machine& machine, ResidualChoice residuals) {
  RNNC_CHECK(run_pipeline(graph, {.training = true}).has_value(), "not lowered");
  DifferentiateOptions options = DifferentiateOptions::all(graph, {});
  options.residuals = residuals;
  Derivative derivative = differentiate(graph, options);
  return {plan_of(std::move(derivative.forward), machine),
          plan_of(std::move(derivative.backward), machine)};
}

TEST(RerollGradients, CodeOfNeitherHalfGrowsWithArrays) {
  for (const Machine& machine : {cpu_machine(4), h200_machine()}) {
    for (const ResidualChoice residuals :
         {ResidualChoice::All, ResidualChoice::Least, ResidualChoice::Auto}) {
      SCOPED_TRACE(to_string(residuals));
      const Halves few = halves_of(delta_rule(64, 40), machine, residuals);
      const Halves many = halves_of(delta_rule(96, 40), machine, residuals);
      EXPECT_EQ(instructions(few.forward), instructions(many.forward));
      EXPECT_EQ(instructions(few.backward), instructions(many.backward));
      EXPECT_GE(loops(few.forward), 2u) << to_string(few.forward);
      EXPECT_GE(loops(few.backward), 4u) << to_string(few.backward);
      // What goes from half to half is a handful of arrays, too.
      EXPECT_EQ(few.forward.buffers.size(), many.forward.buffers.size());
      EXPECT_EQ(few.backward.buffers.size(), many.backward.buffers.size());
      EXPECT_LE(few.backward.buffers.size(), 21u);
    }
  }
}

Derivative derivative_of(Graph graph) {
  RNNC_CHECK(run_pipeline(graph, {.training = true}).has_value(), "not lowered");
  DifferentiateOptions options = DifferentiateOptions::all(graph, {});
  options.residuals = ResidualChoice::All;
  options.decisions = true;
  return differentiate(graph, options);
}

int64_t saved_in_arrays(const Derivative& derivative) {
  return std::ranges::count_if(derivative.decisions, [](const ResidualDecision& decision) {
    return decision.is_saved() && decision.array != decision.value;
  });
}

TEST(ResidualArrays, HaveWhatTurnsOverRowsGive) {
  // Of each row what it was, what it has become, and what the two inputs have for it.
  const Derivative derivative = derivative_of(delta_rule(20, 5));
  EXPECT_EQ(saved_in_arrays(derivative), 4 * 19);
  EXPECT_EQ(saved_in_arrays(derivative_of(delta_rule(7, 5))), 0) << "a loop needs 8 turns";
}

TEST(ResidualArrays, AreNotMadeOfLayers) {
  Unit unit("deep.rnn",
            "cell A[I, H](x: [I]) -> h {\nstate h: [H]\nparam W: [H, I]\nparam R: [H, H]\n"
            "h[t] = tanh(W @ x[t] + R @ h[t-1])\n}\n"
            "network N[H](x: [H]) -> y {\ny = x\nfor l in 0..12 { y = A[H = H](y) }\n}\n");
  std::optional<Graph> graph = unit.lower("N", {});
  ASSERT_TRUE(graph) << unit.render();
  graph->bind({{"H", 5}});
  EXPECT_EQ(saved_in_arrays(derivative_of(*graph)), 0);
}

TEST(RerollGradients, RowsTooLongForABlockStayWrittenOut) {
  const Halves halves = halves_of(delta_rule(64, 1025), h200_machine(), ResidualChoice::Auto);
  for (const Kernel& kernel : halves.backward.kernels) {
    for (const Instruction& instruction : kernel.body) {
      EXPECT_TRUE(instruction.kind != Instruction::Kind::Reduce || kernel.loops.empty());
    }
  }
}

TEST(RerollGradients, RandomArrayCellsComputeTheSame) {
  size_t kept = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}:\n{}", seed, random_array_cell(seed)));
    const Graph graph = random_array_graph(seed, 40 + static_cast<int64_t>(seed % 3), 5);
    check_halves(
        graph, draw_of(seed),
        [&kept](const Plan& plan, const InterpreterArgs& args, const SequenceArgs& sequences) {
          if (plan.descending && loops(plan) > 0) ++kept;
          return Result<InterpreterResult>(execute_plan(plan, args, sequences));
        });
  }
  EXPECT_GE(kept, 40u);
}

}  // namespace
}  // namespace rnnc::test
