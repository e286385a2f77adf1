#include "ir/graph/formula.h"

#include <gtest/gtest.h>

#include "ir/graph/interpreter.h"
#include "ir/graph/text.h"
#include "ir/graph/verify.h"
#include "tests/support/expect_bug.h"

namespace rnnc {
namespace {

double value(std::string_view text) {
  const Result<Formula> formula = parse_formula(text);
  EXPECT_TRUE(formula) << text << ": " << formula.error().message;
  return formula ? evaluate(*formula, 2, 3, 5, 7) : 0;  // a, b, c, y
}

std::string error(std::string_view text) {
  const Result<Formula> formula = parse_formula(text);
  return formula ? "no error" : formula.error().message;
}

TEST(Formula, Evaluates) {
  EXPECT_EQ(value("1"), 1);
  EXPECT_EQ(value("-0.5"), -0.5);
  EXPECT_EQ(value("a"), 2);
  EXPECT_EQ(value("a + b * c - y"), 10);
  EXPECT_EQ(value("(a + b) * c"), 25);
  EXPECT_EQ(value("a - b - c"), -6);
  EXPECT_EQ(value("y / a / a"), 1.75);
  EXPECT_EQ(value("-a * a"), -4);
  EXPECT_EQ(value("--a"), 2);
  EXPECT_EQ(value("b * -a"), -6);
  EXPECT_EQ(value("pow(a, b - 1)"), 4);
  EXPECT_EQ(value("where(gt(a, b), 1, y + 1)"), 8);
  EXPECT_EQ(value("max(min(a,b),1)*1e1"), 20);
}

TEST(Formula, Errors) {
  EXPECT_EQ(error(""), "expected a value at ``");
  EXPECT_EQ(error("a +"), "expected a value at ``");
  EXPECT_EQ(error("a b"), "unexpected `b`");
  EXPECT_EQ(error("(a"), "expected `)` before ``");
  EXPECT_EQ(error("exp(a"), "expected `)` before ``");
  EXPECT_EQ(error("exp a"), "expected `(` after `exp`");
  EXPECT_EQ(error("z"), "there is no function `z`");
  EXPECT_EQ(error("matmul(a, b)"), "there is no function `matmul`");
  EXPECT_EQ(error("exp(a, b)"), "`exp` takes 1 operands, has 2");
  EXPECT_EQ(error(std::string(200, '(')), "nested too deep");
  EXPECT_EQ(error(std::string(200, '-')), "nested too deep");
}

TEST(Formula, DerivativeOfWhatHasNone) {
  EXPECT_BUG(derivative(Op::Exp, 1), "this is a bug in rnnc.*`exp` has no derivative");
  EXPECT_BUG(derivative(Op::MatMul, 0), "this is a bug in rnnc.*`matmul` has no derivative");
}

TEST(Formula, BuildsTheSameArithmetic) {
  for (const OpInfo& row : all_ops()) {
    if (!row.scalar) continue;
    const auto arity = static_cast<size_t>(row.arity);
    for (size_t by = 0; by < arity; ++by) {
      Graph graph;
      graph.name = "Derivative";
      std::vector<NodeId> operands;
      const std::vector<double> values = {0.75, 0.5, 0.25};
      for (uint32_t i = 0; i < arity; ++i) {
        graph.inputs.push_back({fmt::format("x{}", i), Type{{1}}, {}});
        operands.push_back(graph.input(i));
      }
      const NodeId result = graph.apply(row.op, operands);
      const NodeId built = build(graph, derivative(row.op, by), operands, result);
      graph.outputs.push_back({"y", built, {}});
      const Status verified = verify(graph);
      ASSERT_TRUE(verified) << verified.error().message << "\n" << to_string(graph);

      InterpreterArgs args;
      args.steps = 1;
      args.batch = 1;
      for (size_t i = 0; i < arity; ++i) args.inputs.push_back({values[i]});
      const double y = evaluate(row.op, values[0], values[1], values[2]);
      EXPECT_EQ(interpret(graph, args).outputs[0][0],
                evaluate(derivative(row.op, by), values[0], values[1], values[2], y))
          << row.name << " by operand " << by;
    }
  }
}

}  // namespace
}  // namespace rnnc
