// Every scalar op on the GPU against its meaning in float64, special values included.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/gpu/device_arguments.h"
#include "tests/gpu/graphs.h"
#include "tests/support/reference/deterministic.h"

namespace rnnc::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Triples of operands: every combination of special values, then random ones of several sizes.
std::vector<std::vector<double>> operands(DType dtype) {
  const std::vector<double> special = {kNan, kInf, -kInf, 0.0,  -0.0,   1.0,   -1.0,  2.0,
                                       -2.0, 0.5,  -0.5,  3.0,  -3.0,   1e-4,  -1e-4, 0.3,
                                       -0.7, 7.5,  -7.5,  20.0, -20.0,  87.5,  -87.5, 100.0,
                                       -100, 1e-6, 1e4,   -1e4, 3.1415, 1000.0};
  std::vector<std::vector<double>> result(3);
  const auto add = [&result](double a, double b, double c) {
    result[0].push_back(a);
    result[1].push_back(b);
    result[2].push_back(c);
  };
  for (const double a : special) {
    for (const double b : special) {
      for (const double c : {kNan, -kInf, -1.0, 0.0, 0.5, 20.0, kInf}) add(a, b, c);
    }
  }
  constexpr int64_t kRandom = 20000;
  for (const double scale : {1e-3, 1.0, 10.0, 100.0}) {
    const std::vector<double> values = deterministic_values("operands", 3 * kRandom, scale, dtype);
    for (size_t i = 0; i + 2 < values.size(); i += 3) add(values[i], values[i + 1], values[i + 2]);
  }
  return result;
}

/// What a result may miss besides 1e-6 of its size, where the function's own rounding of its
/// operand matters more than the result's size.
double absolute_tolerance(Op op) {
  switch (op) {
    case Op::Sin:
    case Op::Cos:
    case Op::Gelu:
      return 2e-6;
    case Op::Log:
      return 1e-7;
    case Op::Silu:
      return 1.04e-36;  // the sigmoid is 0 where it would be below 2^-126
    default:
      return 2e-38;  // results below the normal numbers may be 0
  }
}

bool close(Op op, DType dtype, double actual, double exact) {
  const auto expected = static_cast<double>(static_cast<float>(exact));
  if (std::isnan(expected)) return std::isnan(actual);
  double relative = 1e-6;
  double absolute = absolute_tolerance(op);
  if (dtype == DType::bf16) {
    relative = 4.0e-3;
  } else if (dtype == DType::f16) {
    relative = 5.0e-4;
    absolute = std::max(absolute, 3.1e-8);  // half the least subnormal
    if (std::fabs(expected) >= 65520 && std::isinf(actual)) return (expected < 0) == (actual < 0);
  }
  if (std::isinf(expected) || std::isinf(actual)) return actual == expected;
  return std::fabs(actual - expected) <= relative * std::fabs(expected) + absolute;
}

class GpuScalarOps : public testing::TestWithParam<DType> {};

TEST_P(GpuScalarOps, MatchTheirMeaning) {
  const DType dtype = GetParam();
  InterpreterArgs args;
  args.steps = 1;
  args.batch = 1;
  args.inputs = operands(dtype);
  args = rounded(args, dtype);
  const auto count = static_cast<int64_t>(args.inputs[0].size());

  Graph graph;
  graph.name = "ops";
  std::vector<NodeId> inputs;
  for (const char* name : {"a", "b", "c"}) inputs.push_back(add_input(graph, name, {count}));
  std::vector<Op> ops;
  for (const OpInfo& op : all_ops()) {
    if (!op.scalar) continue;
    ops.push_back(op.op);
    const std::vector<NodeId> values(inputs.begin(), inputs.begin() + op.arity);
    add_output(graph, std::string(op.name), graph.apply(op.op, values));
  }

  auto program =
      Program::compile(graph, {.dtype = dtype, .device = {.kind = Device::Kind::cuda, .index = 0}});
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const Status prepared = program->prepare(1, 1);
  ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
  const DeviceArguments arguments(*program, args);
  const Status ran = program->forward(arguments.on(nullptr));
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  const InterpreterResult result = arguments.results();

  for (size_t i = 0; i < ops.size(); ++i) {
    int wrong = 0;
    for (size_t j = 0; j < args.inputs[0].size() && wrong < 3; ++j) {
      const double a = args.inputs[0][j];
      const double b = args.inputs[1][j];
      const double c = args.inputs[2][j];
      const double expected = evaluate(ops[i], a, b, c);
      if (close(ops[i], dtype, result.outputs[i][j], expected)) continue;
      ++wrong;
      ADD_FAILURE() << fmt::format("{}({}, {}, {}) in {}: {}, expected {}", info(ops[i]).name, a, b,
                                   c, to_string(dtype), result.outputs[i][j], expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuScalarOps, testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& dtype) { return std::string(to_string(dtype.param)); });

}  // namespace
}  // namespace rnnc::test
