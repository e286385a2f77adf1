#include "passes/plan/long_products.h"

#include <gtest/gtest.h>

#include "passes/build_plan.h"
#include "tests/passes/cases.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

/// Step by step, with products in launches of their own.
Plan launches_of(const Graph& graph, PassSet passes, DType dtype = DType::f32) {
  passes = passes.without(Pass::Resident).without(Pass::Epilogue);
  Result<Plan> plan = plan_graph(graph, {.dtype = dtype,
                                         .batch = 3,
                                         .max_steps = 11,
                                         .chunk = 4,
                                         .passes = passes,
                                         .machine = h200_machine()});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

std::vector<GemmLaunch> step_products(const Plan& plan) {
  std::vector<GemmLaunch> found;
  for (const Stage& stage : plan.stages) {
    if (stage.domain != Domain::Step) continue;
    for (const Launch& launch : stage.launches) {
      if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) found.push_back(*gemm);
    }
  }
  return found;
}

TEST(LongProducts, OneForAllGates) {
  const Graph half = load_backward_half("lstm", {{"H", 8}});
  const std::vector<GemmLaunch> products = step_products(launches_of(half, PassSet::all()));
  ASSERT_EQ(products.size(), 1U);
  EXPECT_EQ(products[0].k, 4 * 8);
  EXPECT_EQ(products[0].n, 8);
  // Without what makes their left operands neighbours.
  EXPECT_EQ(step_products(launches_of(half, PassSet::all().without(Pass::Merge))).size(), 4U);
}

/// Rows of three elements lie apart, between zeros that steps do not have.
TEST(LongProducts, NeighboursOnly) {
  const Graph half = load_backward_half("lstm", {{"H", 3}});
  EXPECT_EQ(step_products(launches_of(half, PassSet::all())).size(), 4U);
}

TEST(LongProducts, NothingOnACpu) {
  Plan plan =
      launches_of(load_backward_half("lstm", {{"H", 8}}), PassSet::all().without(Pass::Merge));
  const std::string before = to_string(plan);
  EXPECT_FALSE(run_long_products(plan, cpu_machine(1)));
  EXPECT_EQ(to_string(plan), before);
}

/// Memory that nothing has written is NaN.
TEST(LongProducts, GiveWhatTheGraphMeans) {
  uint64_t seed = 0;
  for (const char* name : {"lstm", "gru", "gru_reset_before", "layer_norm_lstm", "elman",
                           "stacked_lstm", "two_recurrences", "bidirectional"}) {
    for (const int64_t hidden : {3, 8}) {
      const Graph half = load_backward_half(name, {{"H", hidden}});
      for (const DType dtype : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name, hidden, to_string(dtype)));
        const InterpreterArgs args = random_args(half, 11, 3, ++seed);
        const InterpreterResult expected = interpret(half, args);
        const InterpreterResult actual =
            execute_plan(launches_of(half, PassSet::all(), dtype), args);
        const double most = dtype == DType::f32 ? 2e-5 : 5e-2;
        EXPECT_LE(worst_error(actual.outputs, expected.outputs), most);
        EXPECT_LE(worst_error(actual.results, expected.results), most);
      }
    }
  }
}

}  // namespace
}  // namespace rnnc::test
