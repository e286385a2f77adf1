// f32 products of whole chunks in parts on tensor cores, large enough to be split.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/graph/text.h"
#include "ir/plan/plan.h"
#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"
#include "tests/support/cells/sequence_cases.h"

namespace rnnc::test {
namespace {

struct ProductSize {
  int64_t inputs, outputs, steps, batch;
};

CompileOptions on_gpu(PassSet passes = PassSet::all()) {
  return {.dtype = DType::f32,
          .device = {.kind = Device::Kind::cuda, .index = 0},
          .chunk = 64,
          .passes = passes};
}

/// y = tanh(W x + b), z = W x.
Graph dense(const ProductSize& size) {
  Result<Graph> graph = parse_graph(fmt::format(R"(graph Dense() {{
  input x: [{0}]
  param W: [{1}, {0}]
  param b: [{1}]
  %0 = input x : [{0}]
  %1 = param W : [{1}, {0}]
  %2 = param b : [{1}]
  %3 = matmul %1, %0 : [{1}]
  %4 = add %3, %2 : [{1}]
  %5 = tanh %4 : [{1}]
  output y = %5
  output z = %3
}}
)",
                                                size.inputs, size.outputs));
  RNNC_CHECK(graph.has_value(), "{}", graph.error().message);
  return *std::move(graph);
}

Program prepare(const Graph& graph, const ProductSize& size, const CompileOptions& options) {
  Result<Program> program = Program::compile(graph, options);
  RNNC_CHECK(program.has_value(), "{}", program.error().message);
  const Status prepared = program->prepare(size.batch, size.steps);
  RNNC_CHECK(prepared.has_value(), "{}", prepared.error().message);
  return *std::move(program);
}

bool splits(const Program& program, const ProductSize& size) {
  const Plan& plan = *program.prepared(size.batch, size.steps)->plan;
  return std::ranges::any_of(plan.stages, [](const Stage& stage) {
    return std::ranges::any_of(stage.launches, [](const Launch& launch) {
      return std::holds_alternative<SplitLaunch>(launch);
    });
  });
}

InterpreterResult run(Program& program, const InterpreterArgs& args, bool misaligned = false) {
  const DeviceArguments arguments(program, args, misaligned);
  const Status ran = program.forward(arguments.on(nullptr));
  EXPECT_TRUE(ran.has_value()) << ran.error().message;
  return arguments.results();
}

class GpuSplit : public testing::TestWithParam<ProductSize> {
 protected:
  const ProductSize size_ = GetParam();
  const Graph graph_ = dense(size_);
  Program program_ = prepare(graph_, size_, on_gpu());
};

TEST_P(GpuSplit, ProductsAreAsExactAsF32) {
  EXPECT_TRUE(splits(program_, size_));
  for (const int64_t steps : {size_.steps, size_.steps - 1, int64_t{1}}) {
    SCOPED_TRACE(fmt::format("{} steps", steps));
    const InterpreterArgs args = arguments_for(graph_, steps, size_.batch);
    const InterpreterResult expected = interpret(graph_, args);
    for (const bool misaligned : {false, true}) {
      EXPECT_LE(error_of_results(run(program_, args, misaligned), expected), 1e-5);
    }
  }
}

TEST_P(GpuSplit, ProductsAreExactWithoutThePass) {
  const CompileOptions options = on_gpu(PassSet::all().without(Pass::Split));
  Program program = prepare(graph_, size_, options);
  EXPECT_FALSE(splits(program, size_));
  const InterpreterArgs args = arguments_for(graph_, 3, size_.batch);
  EXPECT_LE(error_of_results(run(program, args), interpret(graph_, args)), 1e-5);
}

// Each at a step of x and in a row of W of its own, but in one column: all of them meet.
TEST_P(GpuSplit, WhatIsNotFiniteOrHugeIsAsInF32) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kGreatest = std::numeric_limits<float>::max();
  InterpreterArgs args = arguments_for(graph_, 16, size_.batch);
  size_t place = 0;
  for (const double value : {1.2e30, -kInfinity, kInfinity, kNan, kGreatest, -kGreatest, 0.0, 1e-38,
                             1e-42, 6.7e7, -1e30}) {
    const size_t row = place++ * static_cast<size_t>(size_.inputs);
    args.inputs[0][row * static_cast<size_t>(size_.batch) + 5] = value;
    // Weights that keep the accuracy of f32.
    const double magnitude = std::isfinite(value) && value != 0 ? std::abs(value) : 1;
    args.params[0][row + 5] = value * std::clamp(magnitude, 1e-38, 6.7e7) / magnitude;
  }
  args = rounded(args, DType::f32);
  const InterpreterResult expected = interpret(graph_, args);
  const InterpreterResult actual = run(program_, args);
  size_t special = 0;
  for (size_t i = 0; i < expected.outputs[1].size(); ++i) {
    const auto wanted = static_cast<float>(expected.outputs[1][i]);
    const auto got = static_cast<float>(actual.outputs[1][i]);
    special += std::isfinite(wanted) ? 0 : 1;
    if (!std::isfinite(wanted)) {
      ASSERT_EQ(std::isnan(got), std::isnan(wanted)) << i << ": " << got << ", not " << wanted;
      ASSERT_TRUE(std::isnan(wanted) || got == wanted) << i << ": " << got << ", not " << wanted;
    } else {
      const size_t row = i / static_cast<size_t>(size_.outputs);
      const double x = args.inputs[0][row * static_cast<size_t>(size_.inputs) + 5];
      const float accuracy = std::abs(x) < kMostSplitLeft ? 1e-5F : 1e-3F;
      ASSERT_NEAR(got, wanted, accuracy * std::max(1.0F, std::abs(wanted))) << i;
    }
  }
  EXPECT_GT(special, 100U);
}

INSTANTIATE_TEST_SUITE_P(Sizes, GpuSplit,
                         testing::Values(ProductSize{300, 1200, 64, 16},
                                         ProductSize{1024, 4096, 70, 32},
                                         ProductSize{1061, 1999, 64, 33}),
                         [](const auto& size) { return fmt::format("K{}", size.param.inputs); });

TEST(GpuSplitLstms, BesideResidentRecurrences) {
  const ProductSize size{1024, 1024, 70, 16};
  const Graph graph = lstm_graph(size.inputs, size.outputs);
  Program program = prepare(graph, size, on_gpu());
  EXPECT_TRUE(splits(program, size));
  const InterpreterArgs args = arguments_for(graph, size.steps, size.batch, true);
  EXPECT_LE(error_of_results(run(program, args), interpret(graph, args)), 2e-5);
}

}  // namespace
}  // namespace rnnc::test
