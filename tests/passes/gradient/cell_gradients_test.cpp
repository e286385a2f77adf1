// Gradients of every shipped cell and network, no array of them left out: central differences in
// float64 (passes/gradient/finite_differences.h has the rule), PyTorch's autograd, and the plans of
// both halves.
#include <gtest/gtest.h>

#include <algorithm>

#include "passes/gradient/finite_differences.h"
#include "passes/gradient/interpret_gradients.h"
#include "passes/gradient/zero_gradients.h"
#include "passes/graph/pipeline.h"
#include "tests/passes/gradient/gradient_check.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/gradients/golden_gradients.h"
#include "tests/support/gradients/half_check.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/interpreter_run.h"

namespace rnnc::test {
namespace {

constexpr int64_t kSteps = 7;
constexpr int64_t kChunk = 3;  // of which kSteps is no multiple
constexpr int64_t kBatch = 3;

/// The cell with H of this size; projected networks, whose P is below H, with one more.
GoldenCase case_of(const std::string& cell, int64_t size) {
  const std::vector<GoldenSize>& sizes = golden_file(cell).sizes();
  const auto find = [&](int64_t h) {
    return std::ranges::find_if(sizes, [&](const GoldenSize& one) {
      return one.dims.at("H") == h || one.dims.at("H") == h + 1;
    });
  };
  const auto known = find(size);
  const auto like = known == sizes.end() ? find(7) : known;
  GoldenCase one = {.cell = cell, .size = *like, .rounding = DType::f32};
  if (known == sizes.end()) {
    one.size.dims["H"] = size;
    if (one.size.dims.contains("P")) one.size.dims["P"] = (size + 1) / 2;
  }
  one.size.steps = kSteps;
  one.size.batch = kBatch;
  return one;
}

class GradientsOfCells : public testing::TestWithParam<std::string> {
 protected:
  /// One size with and without given states, lengths and resets. Of each array so many entries, at
  /// random; all, if it has no more.
  void check_size(int64_t size, size_t entries) const {
    struct Variant {
      bool given, lengths, resets;
    };
    constexpr Variant kVariants[] = {
        {false, false, false}, {true, false, false}, {false, true, false}, {true, true, true}};
    uint64_t seed = static_cast<uint64_t>(size);
    for (const Variant& variant : kVariants) {
      GoldenCase one = case_of(GetParam(), size);
      one.size.given_states = variant.given;
      const Result<Graph> graph = golden_graph(one);
      ASSERT_TRUE(graph) << graph.error().message;
      const bool backwards = std::ranges::any_of(graph->states, &StateDecl::reversed);
      const InterpreterArgs args = interpreter_args(*graph, golden_arguments(*graph, one));
      ++seed;
      const GradientReport report =
          check_gradients(*graph, args,
                          {.seed = seed,
                           .lengths = variant.lengths,
                           .resets = variant.resets && !backwards,
                           .residuals = static_cast<ResidualChoice>(seed % 3),
                           .outputs = seed % 2 == 0,
                           .entries = entries});
      SCOPED_TRACE(fmt::format("H {}, given {}, lengths {}, resets {}", size, variant.given,
                               variant.lengths, variant.resets));
      EXPECT_LE(report.error, kMostDifference) << report.worst;
      EXPECT_LE(report.kink_share, kMostKinks) << fmt::format("{}", fmt::join(report.kinks, "\n"));
      // What differences cannot tell, autograd does: AreAutograds compares whole arrays.
      EXPECT_TRUE(report.kinks.empty() || has_golden_gradients(GetParam()));
    }
  }
};

TEST_P(GradientsOfCells, AreFiniteDifferences) {
  if (GetParam() == "SkipGRU") GTEST_SKIP() << "its gradient goes straight through a step";
  check_size(1, 1000);
  check_size(3, 1000);
  check_size(7, 10);
  check_size(33, 2);
}

TEST_P(GradientsOfCells, ArePlannedInChunks) {
  uint64_t seed = 0;
  for (const int64_t size : {1, 3, 7, 33}) {
    SCOPED_TRACE(fmt::format("H {}", size));
    const Result<Graph> graph = golden_graph(case_of(GetParam(), size));
    ASSERT_TRUE(graph) << graph.error().message;
    const bool backwards = std::ranges::any_of(graph->states, &StateDecl::reversed);
    ++seed;
    check_halves(*graph,
                 {.steps = kSteps,
                  .batch = kBatch,
                  .chunk = kChunk,
                  .seed = seed,
                  .lengths = seed % 2 == 0,
                  .resets = seed > 2 && !backwards,
                  .given_states = seed % 2 == 1},
                 [](const Plan& plan, const InterpreterArgs& args, const SequenceArgs& sequences) {
                   return execute_plan(plan, args, sequences);
                 });
  }
}

/// None rounds or compares where a gradient passes, so none is told of in a note.
TEST_P(GradientsOfCells, AreZeroNowhere) {
  Result<Graph> graph = golden_graph(case_of(GetParam(), 3));
  ASSERT_TRUE(graph) << graph.error().message;
  const Status lowered = run_pipeline(*graph, {.training = true});
  ASSERT_TRUE(lowered) << lowered.error().message;
  const DifferentiateOptions all =
      DifferentiateOptions::all(*graph, std::vector<bool>(graph->states.size(), false));
  EXPECT_EQ(describe_zero_gradients(*graph, differentiate(*graph, all).zero_gradients),
            std::vector<std::string>{});
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
    options.outputs = compared % 2 == 0;
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
