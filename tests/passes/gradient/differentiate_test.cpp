#include "passes/gradient/differentiate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ir/graph/text.h"
#include "passes/gradient/finite_differences.h"
#include "passes/gradient/interpret_gradients.h"
#include "passes/graph/dead_code.h"
#include "passes/graph/delays.h"
#include "passes/graph/pipeline.h"
#include "passes/graph/stop_gradients.h"
#include "tests/passes/cases.h"
#include "tests/passes/gradient/gradient_check.h"
#include "tests/passes/graph/pass_check.h"
#include "tests/support/cells/language_cells.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/reference/interpreter_run.h"

namespace rnnc::test {
namespace {

/// Their histories are given where their states are, and a graph with delays has none yet.
bool has_far_delays(const Graph& graph) {
  return std::ranges::any_of(graph.nodes,
                             [](const Node& node) { return node.delay > kMostDelayStates; });
}

TEST(Differentiate, RandomGraphs) {
  size_t compared = 0;
  size_t kinks = 0;
  for (uint64_t seed = 0; seed < 160; ++seed) {
    Graph graph = any_random_graph(seed);
    run_pass_through_stops(graph);
    GradientCheck check = {.seed = seed,
                           .given_states = seed % 3 == 0 && !has_far_delays(graph),
                           .lengths = seed % 5 == 1,
                           .resets = seed % 5 >= 3,
                           .residuals = static_cast<ResidualChoice>(seed % 3),
                           .outputs = seed % 2 == 0,
                           .entries = 4,
                           .simplify = seed % 4 != 0};
    const InterpreterArgs args =
        random_args(graph, check.steps, check.batch, seed, check.given_states);
    const GradientReport report = check_gradients(graph, args, check);
    EXPECT_LE(report.error, kMostDifference) << "seed " << seed << ": " << report.worst;
    compared += report.compared;
    kinks += report.kinks.size();
  }
  EXPECT_LE(kinks, compared / 5);
}

/// Cells of whatever the language has, and networks.
TEST(Differentiate, LanguageCellsAndNetworks) {
  const auto check = [](const std::string& name, const Graph& graph, uint64_t seed) {
    const InterpreterArgs args = random_args(graph, 5, 2, seed);
    for (const bool features : {false, true}) {
      const bool backwards = std::ranges::any_of(graph.states, &StateDecl::reversed);
      const GradientReport report =
          check_gradients(graph, args,
                          {.seed = seed,
                           .lengths = features,
                           .resets = features && !backwards,
                           .residuals = static_cast<ResidualChoice>(seed % 3),
                           .outputs = seed % 2 == 0,
                           .entries = 4});
      EXPECT_LE(report.error, kMostDifference) << name << ": " << report.worst;
      EXPECT_GE(report.compared, 5u) << name;
    }
  };
  uint64_t seed = 0;
  for (const std::string& name : language_cells()) check(name, language_cell(name, 6), ++seed);
  for (const std::string& name : networks()) check(name, network(name, 5), ++seed);
}

/// What a text means to the interpreter, with these arrays and no others.
Gradients gradients_of(const std::string& text, const GradientArgs& args,
                       const PipelineOptions& pipeline = {.training = true}) {
  Graph graph = graph_from(text);
  const Status lowered = run_pipeline(graph, pipeline);
  EXPECT_TRUE(lowered) << lowered.error().message;
  std::vector<bool> given;
  for (const auto& initial : args.forward.initial_states) given.push_back(!initial.empty());
  const Derivative derivative = differentiate(graph, DifferentiateOptions::all(graph, given));
  return interpret_gradients(graph, derivative, args);
}

TEST(Differentiate, StopGradientHasTheValueAndNoAdjoint) {
  // Straight-through rounding: y = w x + stop_gradient(round(w x) - w x).
  const std::string text = R"(graph G {
    input x: []
    param w: []
    %0 = param w : []
    %1 = input x : []
    %2 = mul %0, %1 : []
    %3 = round %2 : []
    %4 = sub %3, %2 : []
    %5 = stop_gradient %4 : []
    %6 = add %2, %5 : []
    output y = %6
  })";
  GradientArgs args = {.forward = {.steps = 2,
                                   .batch = 1,
                                   .inputs = {{0.7, 3}},
                                   .params = {{1.5}},
                                   .initial_states = {}},
                       .output_gradients = {{1, 10}},
                       .final_state_gradients = {}};
  const Gradients gradients = gradients_of(text, args);
  EXPECT_EQ(gradients.params[0], (std::vector<double>{30.7}));
  EXPECT_EQ(gradients.inputs[0], (std::vector<double>{1.5, 15}));
}

TEST(Differentiate, WhatWasNotChosenContributesNothing) {
  // A product of the adjoint with 0 would be NaN where it is infinite.
  const std::string text = R"(graph G {
    input x: [2]
    input c: [2]
    %0 = input x : [2]
    %1 = input c : [2]
    %2 = const 0 : []
    %3 = where %1, %0, %2 : [2]
    output y = %3
  })";
  const double infinity = std::numeric_limits<double>::infinity();
  const GradientArgs args = {.forward = {.steps = 1,
                                         .batch = 1,
                                         .inputs = {{1, 4}, {0, 1}},
                                         .params = {},
                                         .initial_states = {}},
                             .output_gradients = {{infinity, 1}},
                             .final_state_gradients = {}};
  EXPECT_EQ(gradients_of(text, args).inputs[0], (std::vector<double>{0, 1}));
}

TEST(Differentiate, NothingPastTheEndReachesAGradient) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Graph graph = any_random_graph(seed);
    run_pass_through_stops(graph);
    const Status lowered = run_pipeline(graph, {.lengths = true, .training = true});
    ASSERT_TRUE(lowered);
    GradientArgs args = {random_args(graph, 5, 2, seed), {}, {}};
    args.forward.lengths = {3, 5};
    for (const OutputDecl& output : graph.outputs) {
      args.output_gradients.emplace_back(10 * element_count(graph[output.value].type.shape), 1.0);
    }
    const Derivative derivative = differentiate(
        graph, DifferentiateOptions::all(graph, std::vector<bool>(graph.states.size(), false)));
    const Gradients clean = interpret_gradients(graph, derivative, args);
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const auto size = static_cast<size_t>(element_count(graph.inputs[i].type.shape));
      for (size_t t : {3, 4}) {
        std::fill_n(args.forward.inputs[i].begin() + static_cast<ptrdiff_t>(t * 2 * size), size,
                    nan);
      }
    }
    const Gradients spoilt = interpret_gradients(graph, derivative, args);
    EXPECT_EQ(spoilt.params, clean.params);
    EXPECT_EQ(spoilt.inputs, clean.inputs);
  }
}

TEST(Differentiate, WhatIsNotWantedCostsNothing) {
  const Graph graph = graph_from(R"(graph G {
    input x: [3]
    param W: [3, 3]
    param b: [3]
    %0 = param W : [3, 3]
    %1 = input x : [3]
    %2 = matmul %0, %1 : [3]
    %3 = param b : [3]
    %4 = add %2, %3 : [3]
    output y = %4
  })");
  DifferentiateOptions options = DifferentiateOptions::all(graph, {});
  options.params = {false, true};
  options.inputs = {false};
  Derivative derivative = differentiate(graph, options);
  run_dead_code(derivative.backward);
  EXPECT_EQ(derivative.residuals, 0u);
  EXPECT_TRUE(derivative.backward.outputs.empty());
  EXPECT_EQ(std::ranges::count(derivative.backward.nodes, Op::MatMul, &Node::op), 0);
  EXPECT_EQ(derivative.backward.results.size(), 1u);
}

}  // namespace
}  // namespace rnnc::test
