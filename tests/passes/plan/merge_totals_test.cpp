#include "passes/plan/merge_totals.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "passes/build_plan.h"
#include "passes/memory/memory.h"
#include "tests/passes/cases.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

constexpr PassSet kApart =
    PassSet::all().without(Pass::Merge).without(Pass::Pad).without(Pass::Stack);

Machine plain_machine() {
  return {};
}

/// Without what else merges, so that what is counted is this pass's.
Plan merged_plan(const Graph& graph, const Machine& machine, DType dtype = DType::f32,
                 bool unaligned = false) {
  const PassSet passes = kApart.without(Pass::Wavefront).without(Pass::Resident);
  Result<Plan> plan = plan_graph(graph, {.dtype = dtype,
                                         .batch = 3,
                                         .max_steps = 11,
                                         .chunk = 4,
                                         .passes = passes,
                                         .machine = machine});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  run_merge_totals(*plan, machine);
  if (unaligned) run_merge_unaligned_totals(*plan, machine);
  Status status = assign_memory(*plan, /*reuse=*/true);
  if (status) status = verify(*plan);
  RNNC_CHECK(status.has_value(), "{}\n{}", status.error().message, to_string(*plan));
  return *std::move(plan);
}

std::ptrdiff_t count_totals(const Plan& plan) {
  std::ptrdiff_t found = 0;
  for (const Stage& stage : plan.stages) {
    if (stage.domain != Domain::Sequence) continue;
    found += std::ranges::count_if(stage.launches, [](const Launch& launch) {
      return std::holds_alternative<TotalLaunch>(launch);
    });
  }
  return found;
}

TEST(MergeTotals, OneForEachRightOperand) {
  for (const Machine& machine : {plain_machine(), h200_machine()}) {
    // Of x, of h and of rows alone; with a GRU, whose candidate takes what x and h add apart, too.
    for (const char* name : {"lstm", "gru", "elman"}) {
      const Plan plan = merged_plan(load_backward_half(name, {{"H", 8}}), machine);
      EXPECT_EQ(count_totals(plan), 3) << name << to_string(plan);
    }
  }
}

/// With [k, n] weights: those that no forward half has.
std::ptrdiff_t count_transposed(const Plan& plan) {
  std::ptrdiff_t found = 0;
  for (const Stage& stage : plan.stages) {
    for (const Launch& launch : stage.launches) {
      const auto* gemm = std::get_if<GemmLaunch>(&launch);
      found += gemm != nullptr && gemm->transposed && stage.domain == Domain::Sequence ? 1 : 0;
    }
  }
  return found;
}

/// On a CPU weights are not copied for it.
TEST(MergeTotals, ProductsThatAddUp) {
  const Graph half = load_backward_half("lstm", {{"H", 8}});
  EXPECT_EQ(count_transposed(merged_plan(half, h200_machine())), 1);
  EXPECT_EQ(count_transposed(merged_plan(half, plain_machine())), 4);
}

/// What a layer has from the one above is added up before its steps, which wait for none of it.
TEST(MergeTotals, ProductsBetweenLayers) {
  const Graph half = load_backward_half("stacked_lstm", {{"H", 8}});
  EXPECT_EQ(count_transposed(merged_plan(half, h200_machine())), 4);  // three layers and a head
}

TEST(MergeTotals, RowsStayAligned) {
  const Graph half = load_backward_half("lstm", {{"H", 3}});
  EXPECT_EQ(count_totals(merged_plan(half, h200_machine())), 12);
  EXPECT_EQ(count_totals(merged_plan(half, plain_machine())), 3);
}

/// Weight gradients of x and of h, a bias for each gate, and one product for dx.
TEST(MergeTotals, WithZerosBetweenRows) {
  const Graph half = load_backward_half("lstm", {{"H", 3}});
  const Plan plan = merged_plan(half, h200_machine(), DType::f32, /*unaligned=*/true);
  EXPECT_EQ(count_totals(plan), 6) << to_string(plan);
  EXPECT_EQ(count_transposed(plan), 1) << to_string(plan);
  const Plan same = merged_plan(half, plain_machine(), DType::f32, /*unaligned=*/true);
  EXPECT_EQ(to_string(same), to_string(merged_plan(half, plain_machine())));
}

/// Memory that nothing has written is NaN.
TEST(MergeTotals, GiveWhatTheGraphMeans) {
  uint64_t seed = 0;
  for (const char* name : {"lstm", "gru", "gru_reset_before", "layer_norm_lstm", "elman",
                           "stacked_lstm", "two_recurrences", "bidirectional", "min_gru"}) {
    for (const int64_t hidden : {3, 8}) {
      const Graph half = load_backward_half(name, {{"H", hidden}});
      for (const DType dtype : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name, hidden, to_string(dtype)));
        const InterpreterArgs args = random_args(half, 11, 3, ++seed);
        const InterpreterResult expected = interpret(half, args);
        const auto check = [&](const Plan& plan) {
          const InterpreterResult actual = execute_plan(plan, args);
          const double most = dtype == DType::f32 ? 2e-5 : 5e-2;
          EXPECT_LE(worst_error(actual.outputs, expected.outputs), most);
          EXPECT_LE(worst_error(actual.results, expected.results), most);
        };
        check(merged_plan(half, plain_machine(), dtype));
        check(merged_plan(half, h200_machine(), dtype));
        check(merged_plan(half, h200_machine(), dtype, /*unaligned=*/true));
      }
    }
  }
}

}  // namespace
}  // namespace rnnc::test
