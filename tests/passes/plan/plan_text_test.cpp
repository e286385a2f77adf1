// Graph in, plan out, as text. After a change that is meant to alter plans, run this program with
// --update-cases and review what changed in the `.plan` files.
#include <gtest/gtest.h>

#include <fstream>

#include "passes/build_plan.h"
#include "tests/passes/cases.h"
#include "tests/support/case_files.h"
#include "tests/support/reference/golden.h"

namespace rnnc::test {
namespace {

struct PlanCase {
  const char* name;
  DType dtype;
  bool sequences = false;  // with lengths and resets
};

void PrintTo(const PlanCase& param, std::ostream* out) {
  *out << param.name;
}

class PlanText : public testing::TestWithParam<PlanCase> {};

TEST_P(PlanText, IsAsExpected) {
  const auto& [name, dtype, sequences] = GetParam();
  const Result<Plan> plan = build_plan(
      load_case(name),
      {.dtype = dtype, .batch = 3, .max_steps = 100, .lengths = sequences, .resets = sequences});
  ASSERT_TRUE(plan) << plan.error().message;
  const std::string text = to_string(*plan);
  const std::string file =
      case_path(fmt::format("{}.{}{}.plan", name, to_string(dtype), sequences ? ".sequences" : ""));
  if (updates_cases()) {
    std::ofstream(data_root() / file, std::ios::binary) << text;
  }
  EXPECT_EQ(text, read_data(file)) << file;
}

INSTANTIATE_TEST_SUITE_P(
    Cases, PlanText,
    testing::Values(PlanCase{"lstm", DType::f32}, PlanCase{"gru_reset_before", DType::f32},
                    PlanCase{"min_gru", DType::f64}, PlanCase{"layer_norm_lstm", DType::f32},
                    PlanCase{"projected_lstm", DType::bf16}, PlanCase{"stacked_lstm", DType::bf16},
                    PlanCase{"two_recurrences", DType::f32}, PlanCase{"scalars", DType::f32},
                    PlanCase{"copies", DType::f32}, PlanCase{"delays", DType::f16},
                    PlanCase{"derived_weights", DType::f32},
                    PlanCase{"transposed_weights", DType::bf16}, PlanCase{"broadcasts", DType::f32},
                    PlanCase{"concat", DType::bf16}, PlanCase{"slices", DType::f32},
                    PlanCase{"state_arrays", DType::f32}, PlanCase{"blocks", DType::f32},
                    PlanCase{"bidirectional", DType::f32},
                    PlanCase{"stacked_bidirectional", DType::bf16},
                    PlanCase{"lstm", DType::f32, true}, PlanCase{"delays", DType::f16, true},
                    PlanCase{"bidirectional", DType::f32, true}),
    [](const auto& instance) {
      const PlanCase& param = instance.param;
      return fmt::format("{}_{}{}", param.name, to_string(param.dtype),
                         param.sequences ? "_sequences" : "");
    });

}  // namespace
}  // namespace rnnc::test
