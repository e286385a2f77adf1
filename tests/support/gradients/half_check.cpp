#include "tests/support/gradients/half_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/plan/plan_parse.h"
#include "passes/gradient/differentiate.h"
#include "passes/graph/pipeline.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/golden.h"

namespace rnnc::test {
namespace {

double tolerance(const HalfCheck& check) {
  if (check.dtype == DType::f64) return 1e-10;
  if (check.tf32) return 2e-2;
  return check.dtype == DType::f32 ? 1e-4 : 8e-2;
}

/// What the forward half saves past a sequence's end is nobody's: zero.
void clear_past_ends(const Graph& half, const InterpreterArgs& args, InterpreterResult& result) {
  for (size_t i = 0; i < half.outputs.size() && !args.lengths.empty(); ++i) {
    if (!half.outputs[i].name.starts_with("saved@")) continue;
    std::vector<double>& values = result.outputs[i];
    const auto rows = static_cast<size_t>(args.steps * args.batch);
    const size_t width = values.size() / rows;
    for (size_t row = 0; row < rows; ++row) {
      const auto step = static_cast<int64_t>(row) / args.batch;
      if (step < args.lengths[row % static_cast<size_t>(args.batch)]) continue;
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(row * width), width, 0.0);
    }
  }
}

/// On random numbers.
void check_half(const Graph& half, const HalfCheck& check, const RunPlan& run) {
  InterpreterArgs args =
      random_args(half, check.steps, check.batch, check.seed, check.given_states);
  std::mt19937_64 engine(check.seed);
  for (int64_t b = 0; check.lengths && b < check.batch; ++b) {
    args.lengths.push_back(static_cast<int64_t>(engine() % (check.steps + 1)));
  }
  const uint64_t apart = check.seed % 2 == 0 ? 4 : 16;
  for (int64_t i = 0; check.resets && i < check.steps * check.batch; ++i) {
    args.resets.push_back(engine() % apart == 0 ? 1 : 0);
  }
  const Result<Plan> plan = plan_graph(half, {.dtype = check.dtype,
                                              .param_dtype = check.param_dtype,
                                              .batch = check.batch,
                                              .max_steps = std::max<int64_t>(check.steps, 1000),
                                              .chunk = check.chunk,
                                              .lengths = check.lengths,
                                              .resets = check.resets,
                                              .tf32 = check.tf32,
                                              .passes = check.passes,
                                              .machine = check.machine,
                                              .strategy = check.strategy});
  ASSERT_TRUE(plan) << plan.error().message;
  const Result<Plan> parsed = parse_plan(to_string(*plan));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, *plan);
  InterpreterResult expected = interpret(half, args);
  Result<InterpreterResult> actual =
      run(*plan, args, {.lengths = args.lengths, .resets = args.resets});
  ASSERT_TRUE(actual) << actual.error().message;
  clear_past_ends(half, args, expected);
  clear_past_ends(half, args, *actual);
  EXPECT_LE(worst_error(actual->outputs, expected.outputs), tolerance(check));
  EXPECT_LE(worst_error(actual->results, expected.results), tolerance(check));
}

}  // namespace

void check_halves(const Graph& graph, const HalfCheck& check, const RunPlan& run) {
  Graph lowered = graph;
  const Status done =
      run_pipeline(lowered, {.lengths = check.lengths, .resets = check.resets, .training = true});
  ASSERT_TRUE(done) << done.error().message;
  DifferentiateOptions options = DifferentiateOptions::all(
      lowered, std::vector<bool>(lowered.states.size(), check.given_states));
  options.residuals = static_cast<ResidualChoice>(check.seed % 3);
  options.outputs = check.seed % 2 == 0;
  Derivative derivative = differentiate(lowered, options);
  for (Graph* half : {&derivative.forward, &derivative.backward}) {
    SCOPED_TRACE(half == &derivative.forward ? "forward" : "backward");
    const Status simplified = run_simplifications(*half, {.passes = check.passes});
    ASSERT_TRUE(simplified) << simplified.error().message;
    check_half(*half, check, run);
  }
}

}  // namespace rnnc::test
