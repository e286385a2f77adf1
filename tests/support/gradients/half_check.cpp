#include "tests/support/gradients/half_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ir/plan/plan_parse.h"
#include "passes/gradient/differentiate.h"
#include "passes/graph/pipeline.h"
#include "passes/options/strategy.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/cells/sequence_cases.h"
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

Result<Plan> plan_half(const Graph& half, const HalfCheck& check) {
  return plan_graph(half, {.dtype = check.dtype,
                           .param_dtype = check.param_dtype,
                           .batch = check.batch,
                           .max_steps = std::max<int64_t>(check.steps, 1000),
                           .chunk = check.chunk,
                           .lengths = check.lengths,
                           .resets = check.resets,
                           .tf32 = check.tf32,
                           .passes = check.passes,
                           .machine = check.machine,
                           .strategy = check.strategy,
                           .tile_rank = check.tile_rank});
}

/// Ways to run it, in the order in which they are tried: by another strategy if not by the one,
/// then by any, then by none, since kernels may spill.
std::vector<HalfCheck> turns_of(const HalfCheck& check) {
  std::vector<HalfCheck> turns = {check};
  if (!check.any_cell) return turns;
  std::vector<Strategy> strategies;
  for (const StrategyInfo& info : all_strategies()) strategies.push_back(info.strategy);
  std::ranges::rotate(strategies, std::ranges::find(strategies, check.strategy));
  if (check.strategy == Strategy::Any) strategies.clear();
  strategies.push_back(Strategy::Any);
  for (const Strategy strategy : strategies) {
    turns.push_back(check);
    turns.back().strategy = strategy;
  }
  turns.push_back(turns.back());
  turns.back().passes = check.passes.without(Pass::Resident);
  return turns;
}

bool is_refusal(const std::string& message) {
  return message.find("strategy `") != std::string::npos ||
         message.find("spills") != std::string::npos;
}

double worst_of(const InterpreterResult& actual, const InterpreterResult& expected) {
  return std::max(worst_error(actual.outputs, expected.outputs),
                  worst_error(actual.results, expected.results));
}

bool fits(const InterpreterResult& result, DType dtype) {
  const auto holds = [most = largest_result(dtype)](const std::vector<double>& array) {
    return std::ranges::all_of(array, [most](double value) { return std::fabs(value) <= most; });
  };
  return std::ranges::all_of(result.outputs, holds) && std::ranges::all_of(result.results, holds);
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
  InterpreterResult expected = interpret(half, args);
  clear_past_ends(half, args, expected);
  if (check.any_cell && check.dtype == DType::f16 && !fits(expected, check.dtype)) return;
  for (const HalfCheck& turn : turns_of(check)) {
    const Result<Plan> plan = plan_half(half, turn);
    if (!plan && check.any_cell && is_refusal(plan.error().message)) continue;
    ASSERT_TRUE(plan) << plan.error().message;
    const Result<Plan> parsed = parse_plan(to_string(*plan));
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, *plan);
    Result<InterpreterResult> actual =
        run(*plan, args, {.lengths = args.lengths, .resets = args.resets});
    if (!actual && check.any_cell && is_refusal(actual.error().message)) continue;
    ASSERT_TRUE(actual) << actual.error().message;
    clear_past_ends(half, args, *actual);
    const double error = worst_of(*actual, expected);
    double allowed = tolerance(check);
    if (check.any_cell && !(error <= allowed)) {
      InterpreterResult moved = interpret(half, moved_by_rounding(half, args, check.dtype));
      clear_past_ends(half, args, moved);
      allowed = std::max(allowed, kTimesRounding * worst_of(moved, expected));
    }
    EXPECT_LE(error, allowed);
    return;
  }
  FAIL() << "there is no way to run it";
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
