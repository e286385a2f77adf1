/// What layers compute, by the interpreter: directions, cells inside cells, delays in layers.
#include <gtest/gtest.h>

#include "frontend/unit.h"
#include "ir/graph/interpreter.h"
#include "ir/graph/verify.h"

namespace rnnc {
namespace {

using Sequence = std::vector<double>;

const std::string kCells = R"(
cell Sum(x: []) -> s {
  state s: []
  s[t] = s[t-1] + x[t]
}
cell Last(x: []) -> y { y = x[t-1] }
cell SumTwice(x: []) -> y { y = Sum(Sum(x[t])) }
cell LastButOne(x: []) -> y { y = Last(Last(2 * x[t])) / 2 }
cell Local(x: []) -> y {
  u = x[t] + 1
  y = u[t-1]
  u = 10 * u
}
cell Growing(x: []) -> y {
  u = x[t]
  u = u + u[t-1] + u[t-2]
  y = u
}
cell OfInner(x: []) -> y {
  s = Sum(x[t])
  y = s[t-2] + s
}
cell Elements(x: []) -> y {
  for l in 0..2 { a[l] = (l + 1) * x[t] }
  y = a[0][t-1] - a[1][t-1]
}
network Both(x: []) -> (a, b) {
  a = Sum(x)
  b = reverse Sum(x)
}
)";

/// The outputs of a network with this body for x = 1, 2, 4.
std::vector<Sequence> run(const std::string& outputs, const std::string& body) {
  Unit unit("case.rnn", kCells + "network N(x: []) -> " + outputs + " {\n" + body + "\n}\n");
  const std::optional<Graph> graph = unit.lower("N", {});
  EXPECT_EQ(unit.render(), "");
  if (!graph) return {};
  const Status valid = verify(*graph);
  EXPECT_TRUE(valid) << (valid ? "" : valid.error().message);
  InterpreterArgs args;
  args.steps = 3;
  args.batch = 1;
  args.inputs = {{1, 2, 4}};
  return interpret(*graph, args).outputs;
}

TEST(Meaning, ReverseRunsFromTheEnd) {
  EXPECT_EQ(run("(a, b)", "(a, b) = Both(x)"), (std::vector<Sequence>{{1, 3, 7}, {7, 6, 4}}));
  EXPECT_EQ(run("y", "y = reverse Sum(Sum(x))"), (std::vector<Sequence>{{11, 10, 7}}));
  EXPECT_EQ(run("y", "y = Sum(reverse Sum(x))"), (std::vector<Sequence>{{7, 13, 17}}));
}

TEST(Meaning, ReverseWithinReverseIsForward) {
  EXPECT_EQ(run("(a, b)", "(a, b) = reverse Both(x)"),
            (std::vector<Sequence>{{7, 6, 4}, {1, 3, 7}}));
}

TEST(Meaning, CellsInsideCellsHaveStatesOfTheirOwn) {
  EXPECT_EQ(run("y", "y = SumTwice(x)"), (std::vector<Sequence>{{1, 4, 11}}));
  EXPECT_EQ(run("y", "y = reverse SumTwice(x)"), (std::vector<Sequence>{{17, 10, 4}}));
}

TEST(Meaning, LayersLookBackInTheirOwnDirection) {
  EXPECT_EQ(run("y", "y = Last(x)"), (std::vector<Sequence>{{0, 1, 2}}));
  EXPECT_EQ(run("y", "y = Last(x + 1)"), (std::vector<Sequence>{{0, 2, 3}}));
  EXPECT_EQ(run("y", "y = reverse Last(x)"), (std::vector<Sequence>{{2, 4, 0}}));
  EXPECT_EQ(run("y", "y = LastButOne(x)"), (std::vector<Sequence>{{0, 0, 1}}));
  EXPECT_EQ(run("y", "y = reverse LastButOne(x)"), (std::vector<Sequence>{{4, 0, 0}}));
}

TEST(Meaning, LocalsAreReadAtEarlierStepsAsTheyWereLastGiven) {
  EXPECT_EQ(run("y", "y = Local(x)"), (std::vector<Sequence>{{0, 20, 30}}));
  EXPECT_EQ(run("y", "y = reverse Local(x)"), (std::vector<Sequence>{{30, 50, 0}}));
  EXPECT_EQ(run("y", "y = Growing(x)"), (std::vector<Sequence>{{1, 3, 8}}));
  EXPECT_EQ(run("y", "y = OfInner(x)"), (std::vector<Sequence>{{1, 3, 8}}));
  EXPECT_EQ(run("y", "y = reverse OfInner(x)"), (std::vector<Sequence>{{11, 6, 4}}));
  EXPECT_EQ(run("y", "y = Elements(x)"), (std::vector<Sequence>{{0, -1, -2}}));
}

}  // namespace
}  // namespace rnnc
