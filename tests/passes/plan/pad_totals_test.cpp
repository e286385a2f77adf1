#include "passes/plan/pad_totals.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "passes/build_plan.h"
#include "passes/memory/memory.h"
#include "passes/plan/merge_totals.h"
#include "tests/passes/cases.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

struct TotalSetting {
  DType dtype = DType::f32;
  bool tf32 = false;
  PassSet passes = PassSet::all();
};

constexpr PaddingOptions kAny = {
    .max_steps = 11, .least_rows = 1, .least_size = 1, .least_library_rows = 1};

/// As `build_plan` makes it, but any total is worth it.
Plan plan_of_padded_totals(const Graph& graph, const TotalSetting& setting) {
  const Machine machine = h200_machine();
  Result<Plan> plan =
      plan_graph(graph, {.dtype = setting.dtype,
                         .batch = 3,
                         .max_steps = 11,
                         .chunk = 4,
                         .tf32 = setting.tf32,
                         .passes = setting.passes.without(Pass::Pad).without(Pass::Wavefront),
                         .machine = machine});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  run_merge_unaligned_totals(*plan, machine);
  run_padding(*plan, machine, kAny);
  run_pad_totals(*plan, machine, kAny);
  Status status = assign_memory(*plan, /*reuse=*/true);
  if (status) status = verify(*plan);
  RNNC_CHECK(status.has_value(), "{}\n{}", status.error().message, to_string(*plan));
  return *std::move(plan);
}

int64_t bytes(const Plan& plan, const Access& access, int64_t elements) {
  return elements * static_cast<int64_t>(size_of(plan.buffers[access.buffer].dtype));
}

/// How many products of sequences there are, of which all rows are aligned.
int count_aligned(const Plan& plan) {
  int count = 0;
  for (const Stage& stage : plan.stages) {
    if (stage.domain != Domain::Sequence) continue;
    for (const Launch& launch : stage.launches) {
      const auto* total = std::get_if<TotalLaunch>(&launch);
      if (total == nullptr || total->right.buffer == kNoBuffer) continue;
      ++count;
      for (const Access& operand : {total->left, total->right}) {
        EXPECT_EQ(bytes(plan, operand, operand.column) % 16, 0) << to_string(plan);
        EXPECT_EQ(bytes(plan, operand, operand.stride) % 16, 0) << to_string(plan);
      }
      EXPECT_EQ(bytes(plan, total->out, total->n) % 16, 0) << to_string(plan);
    }
  }
  return count;
}

/// Memory that nothing has written is NaN.
TEST(PadTotals, AlignsRowsAndKeepsValues) {
  uint64_t seed = 0;
  for (const char* name : {"lstm", "gru", "gru_reset_before", "layer_norm_lstm", "elman",
                           "stacked_lstm", "two_recurrences", "bidirectional", "min_gru"}) {
    for (const int64_t hidden : {1, 3, 7, 8, 33}) {
      const Graph half = load_backward_half(name, {{"H", hidden}});
      const InterpreterArgs args = random_args(half, 11, 3, ++seed);
      const InterpreterResult expected = interpret(half, args);
      for (const TotalSetting& setting :
           {TotalSetting{}, TotalSetting{.tf32 = true}, TotalSetting{.dtype = DType::bf16},
            TotalSetting{.dtype = DType::f16, .passes = PassSet::all().without(Pass::Resident)},
            TotalSetting{.passes = PassSet::all().without(Pass::Split).without(Pass::Merge)}}) {
        SCOPED_TRACE(fmt::format("{} {} {} {}", name, hidden, to_string(setting.dtype),
                                 setting.passes.to_string()));
        const Plan plan = plan_of_padded_totals(half, setting);
        EXPECT_GT(count_aligned(plan), 0);
        const InterpreterResult actual = execute_plan(plan, args);
        const bool exact = setting.dtype == DType::f32 && !setting.tf32;
        EXPECT_LE(worst_error(actual.results, expected.results), exact ? 2e-5 : 5e-2);
        EXPECT_LE(worst_error(actual.outputs, expected.outputs), exact ? 2e-5 : 5e-2);
      }
    }
  }
}

TEST(PadTotals, LeavesAlignedRowsAlone) {
  for (const char* name : {"lstm", "gru"}) {
    Plan plan = plan_of_padded_totals(load_backward_half(name, {{"H", 7}}), {});
    const std::string before = to_string(plan);
    EXPECT_FALSE(run_pad_totals(plan, h200_machine(), kAny)) << before;
    EXPECT_EQ(to_string(plan), before);
  }
}

TEST(PadTotals, IsForGpus) {
  const Graph half = load_backward_half("lstm", {{"H", 7}});
  Result<Plan> plan = plan_graph(half, {.batch = 3, .max_steps = 11});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_FALSE(run_pad_totals(*plan, Machine{}, kAny));
}

}  // namespace
}  // namespace rnnc::test
