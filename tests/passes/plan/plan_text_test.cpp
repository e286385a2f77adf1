// Graph in, plan out, as text. After a change that is meant to alter plans, run this program with
// --update-cases and review what changed in the `.plan` files.
#include <gtest/gtest.h>

#include <fstream>

#include "passes/build_plan.h"
#include "passes/gradient/differentiate.h"
#include "passes/graph/pipeline.h"
#include "tests/passes/cases.h"
#include "tests/support/case_files.h"
#include "tests/support/reference/golden.h"

namespace rnnc::test {
namespace {

struct PlanCase {
  const char* name;
  DType dtype;
  bool sequences = false;  // with lengths and resets
  bool backward = false;   // the derivative's backward half, with what the forward one puts out

  std::string spelling(char separator) const {
    return fmt::format("{}{}{}{}{}", name, separator, to_string(dtype),
                       sequences ? fmt::format("{}sequences", separator) : "",
                       backward ? fmt::format("{}backward", separator) : "");
  }
};

void PrintTo(const PlanCase& param, std::ostream* out) {
  *out << param.name;
}

Graph half_of(const PlanCase& param) {
  Graph graph = load_case(param.name);
  if (!param.backward) return graph;
  RNNC_CHECK(run_pipeline(graph, {.training = true}), "{}", param.name);
  DifferentiateOptions options = DifferentiateOptions::all(graph, {});
  options.outputs = true;
  return differentiate(graph, options).backward;
}

class PlanText : public testing::TestWithParam<PlanCase> {};

TEST_P(PlanText, IsAsExpected) {
  const PlanCase& param = GetParam();
  const Result<Plan> plan = build_plan(half_of(param), {.dtype = param.dtype,
                                                        .batch = 3,
                                                        .max_steps = 100,
                                                        .lengths = param.sequences,
                                                        .resets = param.sequences});
  ASSERT_TRUE(plan) << plan.error().message;
  const std::string text = to_string(*plan);
  const std::string file = case_path(param.spelling('.') + ".plan");
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
                    PlanCase{"state_arrays", DType::f32}, PlanCase{"delta_rule", DType::f32},
                    PlanCase{"blocks", DType::f32}, PlanCase{"bidirectional", DType::f32},
                    PlanCase{"stacked_bidirectional", DType::bf16},
                    PlanCase{"lstm", DType::f32, true}, PlanCase{"delays", DType::f16, true},
                    PlanCase{"bidirectional", DType::f32, true},
                    PlanCase{"lstm", DType::bf16, false, true},
                    PlanCase{"gru", DType::f32, false, true}),
    [](const auto& instance) { return instance.param.spelling('_'); });

}  // namespace
}  // namespace rnnc::test
