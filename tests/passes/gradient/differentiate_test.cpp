#include "passes/gradient/differentiate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ir/graph/text.h"
#include "passes/gradient/interpret_gradients.h"
#include "passes/graph/dead_code.h"
#include "passes/graph/pipeline.h"
#include "passes/graph/stop_gradients.h"
#include "tests/passes/cases.h"
#include "tests/passes/gradient/gradient_check.h"
#include "tests/passes/graph/pass_check.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/cells/language_cells.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/gradients/golden_gradients.h"
#include "tests/support/reference/deterministic.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/interpreter_run.h"

namespace rnnc::test {
namespace {

constexpr double kTolerance = 1e-6;

TEST(Differentiate, RandomGraphs) {
  size_t compared = 0;
  size_t kinks = 0;
  for (uint64_t seed = 0; seed < 160; ++seed) {
    Graph graph = any_random_graph(seed);
    run_pass_through_stops(graph);
    GradientCheck check = {.seed = seed,
                           .given_states = seed % 3 == 0,
                           .lengths = seed % 5 == 1,
                           .resets = seed % 5 >= 3,
                           .residuals = static_cast<ResidualChoice>(seed % 3),
                           .entries = 4,
                           .simplify = seed % 4 != 0};
    const InterpreterArgs args =
        random_args(graph, check.steps, check.batch, seed, check.given_states);
    const GradientReport report = check_gradients(graph, args, check);
    EXPECT_LE(report.error, kTolerance) << "seed " << seed << ": " << report.worst;
    compared += report.compared;
    kinks += report.kinks;
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
                           .entries = 4});
      EXPECT_LE(report.error, kTolerance) << name << ": " << report.worst;
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

class GradientsOfCells : public testing::TestWithParam<std::string> {};

TEST_P(GradientsOfCells, AreFiniteDifferences) {
  size_t compared = 0;
  size_t kinks = 0;
  uint64_t seed = 0;
  for (const GoldenCase& one : golden_cases(GetParam(), {DType::f32})) {
    if (one.size.batch * one.size.steps > 100 || one.size.dims.at("H") > 33) continue;
    const Result<Graph> graph = golden_graph(one);
    ASSERT_TRUE(graph) << graph.error().message;
    const InterpreterArgs args = interpreter_args(*graph, golden_arguments(*graph, one));
    for (const bool features : {false, true}) {
      const bool backwards = std::ranges::any_of(graph->states, &StateDecl::reversed);
      const GradientCheck check = {.seed = ++seed,
                                   .lengths = features,
                                   .resets = features && !backwards,
                                   .residuals = static_cast<ResidualChoice>(seed % 3),
                                   .entries = 3};
      const GradientReport report = check_gradients(*graph, args, check);
      EXPECT_LE(report.error, kTolerance) << one.name() << ": " << report.worst;
      compared += report.compared;
      kinks += report.kinks;
    }
  }
  EXPECT_GE(compared, 20u);
  EXPECT_LE(kinks, compared / 10);
}

TEST_P(GradientsOfCells, AreAutograds) {
  const Result<GoldenFile> file = GoldenFile::read("gradients/" + GetParam());
  if (!file) {
    const bool by_onnx = golden_file(GetParam()).source().find("onnx") != std::string::npos;
    EXPECT_TRUE(by_onnx) << file.error().message;  // autograd has none of these
    return;
  }
  size_t compared = 0;
  for (const GoldenSize& size : file->sizes()) {
    const GoldenCase one = {.cell = GetParam(), .size = size, .rounding = DType::f32};
    const Summaries expected = file->of_case(one.name());
    Result<Graph> graph = golden_graph(one);
    ASSERT_TRUE(graph) << graph.error().message;
    GradientArgs args = {interpreter_args(*graph, golden_arguments(*graph, one)), {}, {}};
    for (const OutputDecl& output : graph->outputs) {
      const int64_t width = element_count((*graph)[output.value].type.shape);
      args.output_gradients.push_back(
          golden_weights(output.name, args.forward.steps * args.forward.batch * width));
    }
    std::vector<bool> given;
    for (size_t s = 0; s < graph->states.size(); ++s) {
      const StateDecl& state = graph->states[s];
      given.push_back(!args.forward.initial_states[s].empty());
      args.final_state_gradients.push_back(golden_weights(
          "final." + state.name, args.forward.batch * element_count(state.type.shape)));
    }
    const Status lowered = run_pipeline(*graph, {.training = true});
    ASSERT_TRUE(lowered) << lowered.error().message;
    DifferentiateOptions options = DifferentiateOptions::all(*graph, given);
    options.residuals = static_cast<ResidualChoice>(compared % 3);
    const Gradients gradients = interpret_gradients(*graph, differentiate(*graph, options), args);
    const auto expect = [&](const std::string& name, const std::vector<double>& gradient) {
      const auto golden = expected.find(name);
      if (golden == expected.end()) return;  // PyTorch's cell has no such array
      EXPECT_LE(error_of(summarise(gradient), golden->second), 1e-11) << one.name() << " " << name;
      ++compared;
    };
    for (size_t i = 0; i < graph->inputs.size(); ++i) {
      expect(graph->inputs[i].name, gradients.inputs[i]);
    }
    for (size_t i = 0; i < graph->params.size(); ++i) {
      expect(graph->params[i].name, gradients.params[i]);
    }
    for (size_t i = 0; i < graph->states.size(); ++i) {
      expect(graph->states[i].name, gradients.initial_states[i]);
    }
    EXPECT_GE(compared, expected.size()) << "of " << one.name() << " some array has another name";
  }
  EXPECT_GE(compared, 10u);
}

INSTANTIATE_TEST_SUITE_P(Cells, GradientsOfCells, testing::ValuesIn(golden_cells()),
                         [](const auto& cell) { return cell.param; });

}  // namespace
}  // namespace rnnc::test
