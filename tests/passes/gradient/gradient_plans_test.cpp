// Plans of both halves of a derivative compute what the interpreter does, run by the plain executor
// of tests/support.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "passes/build_plan.h"
#include "passes/gradient/differentiate.h"
#include "passes/graph/pipeline.h"
#include "ir/plan/plan_parse.h"
#include "tests/passes/cases.h"
#include "tests/passes/graph/pass_check.h"
#include "tests/support/cells/language_cells.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

struct PlanCheck {
  int64_t steps = 7;
  int64_t batch = 3;
  int64_t chunk = 3;
  uint64_t seed = 1;
  DType dtype = DType::f64;
  bool lengths = false;
  bool resets = false;
  bool given_states = false;
  PassSet passes = PassSet::all();
  Machine machine = {};
};

double tolerance(DType dtype) {
  if (dtype == DType::f64) return 1e-10;
  return dtype == DType::f32 ? 1e-4 : 8e-2;
}

double worst(const std::vector<std::vector<double>>& actual,
             const std::vector<std::vector<double>>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double greatest = 0;
  for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    greatest = std::max(greatest, error_of(actual[i], expected[i]));
  }
  return greatest;
}

/// A half on random numbers, each kind of result against the interpreter's.
void compare_half(const Graph& half, const PlanCheck& check) {
  InterpreterArgs args =
      random_args(half, check.steps, check.batch, check.seed, check.given_states);
  std::mt19937_64 engine(check.seed);
  for (int64_t b = 0; check.lengths && b < check.batch; ++b) {
    args.lengths.push_back(static_cast<int64_t>(engine() % (check.steps + 1)));
  }
  for (int64_t i = 0; check.resets && i < check.steps * check.batch; ++i) {
    args.resets.push_back(engine() % 4 == 0 ? 1 : 0);
  }
  const Result<Plan> plan = plan_graph(half, {.dtype = check.dtype,
                                              .batch = check.batch,
                                              .max_steps = 1000,
                                              .chunk = check.chunk,
                                              .lengths = check.lengths,
                                              .resets = check.resets,
                                              .passes = check.passes,
                                              .machine = check.machine});
  ASSERT_TRUE(plan) << plan.error().message;
  const Result<Plan> parsed = parse_plan(to_string(*plan));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, *plan);
  const InterpreterResult expected = interpret(half, args);
  const InterpreterResult actual =
      execute_plan(*plan, args, {.lengths = args.lengths, .resets = args.resets});
  const double most = tolerance(check.dtype);
  EXPECT_LE(worst(actual.outputs, expected.outputs), most);
  EXPECT_LE(worst(actual.results, expected.results), most);
}

void compare(Graph graph, const PlanCheck& check) {
  const Status lowered = run_pipeline(
      graph, {.lengths = check.lengths, .resets = check.resets, .training = true});
  ASSERT_TRUE(lowered) << lowered.error().message;
  DifferentiateOptions options = DifferentiateOptions::all(
      graph, std::vector<bool>(graph.states.size(), check.given_states));
  options.residuals = static_cast<ResidualChoice>(check.seed % 3);
  Derivative derivative = differentiate(graph, options);
  for (Graph* half : {&derivative.forward, &derivative.backward}) {
    SCOPED_TRACE(half == &derivative.forward ? "forward" : "backward");
    const Status simplified = run_simplifications(*half, {.passes = check.passes});
    ASSERT_TRUE(simplified) << simplified.error().message;
    compare_half(*half, check);
  }
}

TEST(GradientPlans, RandomGraphs) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    compare(any_random_graph(seed), {.steps = static_cast<int64_t>(1 + seed % 9),
                                     .chunk = static_cast<int64_t>(1 + seed % 4),
                                     .seed = seed,
                                     .lengths = seed % 5 == 1,
                                     .resets = seed % 5 >= 3,
                                     .given_states = seed % 3 == 0});
  }
}

TEST(GradientPlans, RandomGraphsInEveryTypeWithAnyPasses) {
  for (uint64_t seed = 200; seed < 260; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    PassSet passes = PassSet::all();
    std::mt19937_64 engine(seed);
    for (const PassInfo& info : all_passes()) {
      if (engine() % 3 == 0) passes = passes.without(info.pass);
    }
    compare(any_random_graph(seed), {.seed = seed,
                                     .dtype = seed % 2 == 0 ? DType::f32 : DType::bf16,
                                     .given_states = seed % 3 == 0,
                                     .passes = passes,
                                     .machine = seed % 4 < 2 ? Machine{} : h200_machine()});
  }
}

TEST(GradientPlans, LanguageCellsAndNetworks) {
  uint64_t seed = 0;
  const auto check = [&](const std::string& name, const Graph& graph) {
    SCOPED_TRACE(name);
    ++seed;
    compare(graph, {.seed = seed});
    compare(graph, {.seed = seed, .dtype = DType::f32, .machine = h200_machine()});
    compare(graph, {.seed = seed, .lengths = true, .given_states = true});
  };
  for (const std::string& name : language_cells()) check(name, language_cell(name, 6));
  for (const std::string& name : networks()) check(name, network(name, 5));
}

}  // namespace
}  // namespace rnnc::test
