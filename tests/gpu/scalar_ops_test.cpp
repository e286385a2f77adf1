// Every scalar op on the GPU against its meaning in float64, special values included.
#include <gtest/gtest.h>

#include <algorithm>
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

InterpreterResult run_on_gpu(const Graph& graph, DType dtype, const InterpreterArgs& args) {
  auto program =
      Program::compile(graph, {.dtype = dtype, .device = {.kind = Device::Kind::cuda, .index = 0}});
  RNNC_CHECK(program.has_value(), "{}", program.error().message);
  const Status prepared = program->prepare(1, 1);
  RNNC_CHECK(prepared.has_value(), "{}", prepared.error().message);
  const DeviceArguments arguments(*program, args);
  const Status ran = program->forward(arguments.on(nullptr));
  RNNC_CHECK(ran.has_value(), "{}", ran.error().message);
  return arguments.results();
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

  const InterpreterResult result = run_on_gpu(graph, dtype, args);

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

/// Significands times powers of two, all of which are floats.
std::vector<double> floats_of_all_sizes(const std::string& name, int64_t count, int least,
                                        int greatest) {
  std::vector<double> values = deterministic_values(name, count, 1.0, DType::f32);
  for (int64_t i = 0; i < count; ++i) {
    const double significand = 1 + 0.9 * std::fabs(std::fmod(values[i], 1.0));
    const double signed_one = static_cast<float>(std::copysign(significand, values[i]));
    values[i] = std::ldexp(signed_one, static_cast<int>(least + i * 7 % (greatest - least)));
  }
  return values;
}

// Neither has the branches that those of the hardware's library have.
TEST(GpuQuotientsAndRoots, AreNearestOfAllSizes) {
  constexpr int64_t kCount = 50000;
  InterpreterArgs args;
  args.steps = args.batch = 1;
  args.inputs = {floats_of_all_sizes("a", kCount, -120, 120),
                 floats_of_all_sizes("b", kCount, -125, 127)};
  std::ranges::reverse(args.inputs[1]);
  for (int64_t i = 0; i < kCount / 2; ++i) {  // quotients and roots that are floats
    const auto factor = static_cast<double>(1 + i % 4000);
    args.inputs[1][i] = static_cast<double>(1 + i / 7 % 3000);
    args.inputs[0][i] = i % 2 == 0 ? args.inputs[1][i] * factor : factor * factor;
  }
  Graph graph;
  graph.name = "ops";
  const NodeId a = add_input(graph, "a", {kCount});
  const NodeId b = add_input(graph, "b", {kCount});
  add_output(graph, "quotient", graph.apply(Op::Div, {a, b}));
  add_output(graph, "root", graph.apply(Op::Sqrt, {a}));
  const InterpreterResult result = run_on_gpu(graph, DType::f32, args);
  for (int64_t i = 0; i < kCount; ++i) {
    const double x = args.inputs[0][i];
    const double y = args.inputs[1][i];
    for (const auto& [actual, exact] :
         {std::pair(result.outputs[0][i], x / y), std::pair(result.outputs[1][i], std::sqrt(x))}) {
      const auto nearest = static_cast<double>(static_cast<float>(exact));
      const bool is_float = nearest == exact;
      const double tolerance = is_float ? 0 : 0x1p-23 * std::fabs(exact) + 2e-38;
      const bool is_same = actual == nearest || (std::isnan(actual) && std::isnan(exact));
      ASSERT_TRUE(is_same || std::fabs(actual - exact) <= tolerance)
          << fmt::format("{} and {}: {}, expected {}", x, y, actual, nearest);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuScalarOps, testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& dtype) { return std::string(to_string(dtype.param)); });

}  // namespace
}  // namespace rnnc::test
