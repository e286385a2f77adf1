// Reductions over rows of many lengths, alone and with work around them.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"

namespace rnnc::test {
namespace {

/// All reductions of x, the normalised x, and the softmax of x.
Graph reductions_graph(int64_t length) {
  Graph graph;
  graph.name = "reductions";
  const NodeId x = add_input(graph, "x", {length});
  for (const Op op : {Op::Sum, Op::Mean, Op::Var, Op::ReduceMin, Op::ReduceMax}) {
    add_output(graph, std::string(info(op).name), graph.apply(op, {x}));
  }
  const NodeId variance = graph.apply(Op::Add, {graph.apply(Op::Var, {x}), graph.constant(1e-5)});
  const NodeId centred = graph.apply(Op::Sub, {x, graph.apply(Op::Mean, {x})});
  add_output(graph, "norm", graph.apply(Op::Mul, {centred, graph.apply(Op::Rsqrt, {variance})}));
  const NodeId shifted = graph.apply(Op::Sub, {x, graph.apply(Op::ReduceMax, {x})});
  const NodeId powers = graph.apply(Op::Exp, {shifted});
  add_output(graph, "softmax", graph.apply(Op::Div, {powers, graph.apply(Op::Sum, {powers})}));
  return graph;
}

struct Case {
  int64_t length;
  DType dtype;
};

/// Runs on 3 steps and 2 sequences after `change` had its way with the input.
void check(const Case& test, const std::function<void(std::vector<double>&)>& change,
           double tolerance) {
  const Graph graph = reductions_graph(test.length);
  InterpreterArgs args = arguments_for(graph, 3, 2);
  change(args.inputs[0]);
  args = rounded(args, test.dtype);
  auto program = Program::compile(
      graph, {.dtype = test.dtype, .device = {.kind = Device::Kind::cuda, .index = 0}});
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const Status prepared = program->prepare(2, 3);
  ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
  const DeviceArguments arguments(*program, args);
  const Status ran = program->forward(arguments.on(nullptr));
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  EXPECT_LE(error_of_results(arguments.results(), interpret(graph, args)), tolerance);
}

double tolerance(DType dtype) {
  return dtype == DType::f32 ? 1e-5 : 1e-2;
}

class GpuReductions : public testing::TestWithParam<Case> {};

TEST_P(GpuReductions, OfOrdinaryValues) {
  check(GetParam(), [](std::vector<double>&) {}, tolerance(GetParam().dtype));
}

TEST_P(GpuReductions, OfNanAndInfinity) {
  const int64_t length = GetParam().length;
  check(
      GetParam(),
      [length](std::vector<double>& x) {
        // One NaN at the end of row 0, both infinities in row 1, one in row 2.
        x[static_cast<size_t>(length - 1)] = std::numeric_limits<double>::quiet_NaN();
        x[static_cast<size_t>(length)] = std::numeric_limits<double>::infinity();
        x[static_cast<size_t>(2 * length - 1)] = -std::numeric_limits<double>::infinity();
        x[static_cast<size_t>(2 * length)] = std::numeric_limits<double>::infinity();
      },
      tolerance(GetParam().dtype));
}

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const int64_t length : {1, 3, 7, 33, 300, 1000, 5000}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      result.push_back({length, dtype});
  }
  result.push_back({100'003, DType::f32});
  return result;
}

INSTANTIATE_TEST_SUITE_P(Lengths, GpuReductions, testing::ValuesIn(cases()), [](const auto& test) {
  return fmt::format("{}_{}", test.param.length, to_string(test.param.dtype));
});

// The mean of squares less the square of the mean would lose every digit.
TEST(GpuVariance, IsExactFarFromZero) {
  for (const int64_t length : {3, 300, 5000, 100'003}) {
    SCOPED_TRACE(length);
    check(
        {length, DType::f32},
        [](std::vector<double>& x) {
          for (double& value : x) value += 300;
        },
        1e-3);
  }
}

}  // namespace
}  // namespace rnnc::test
