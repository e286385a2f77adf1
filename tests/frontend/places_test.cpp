// What people call values, and where these stand in the text.
#include "ir/graph/places.h"

#include <gtest/gtest.h>

#include "frontend/unit.h"

namespace rnnc {
namespace {

Graph graph_of(const std::string& text, const std::string& name) {
  Unit unit("case.rnn", text);
  std::optional<Graph> graph = unit.lower(name, {});
  EXPECT_EQ(unit.render(), "");
  return graph.value_or(Graph{});
}

/// "NAME at PLACE" of every node of an op.
std::vector<std::string> values(const Graph& graph, Op op) {
  std::vector<std::string> found;
  const ValueNames names(graph);
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (graph[id].op != op) continue;
    found.push_back(names.of(id) + " at " + place_of(graph, graph[id].location));
  }
  return found;
}

using Names = std::vector<std::string>;

TEST(Places, ValuesAreCalledAsTheirEquations) {
  const Graph graph = graph_of(R"(cell C[H](x: [H]) -> h {
  state h: [H]
  param W: [H, H]
  i = tanh(W @ x[t] + h[t-1])
  h[t] = i * exp(i
                 + 1)
}
)",
                               "C");
  EXPECT_EQ(values(graph, Op::Tanh), Names{"i at case.rnn:4:7"});
  EXPECT_EQ(values(graph, Op::MatMul), Names{"`W @ x[t]` in i at case.rnn:4:12"});
  EXPECT_EQ(values(graph, Op::Mul), Names{"h[t] at case.rnn:5:10"});
  EXPECT_EQ(values(graph, Op::Exp), Names{"`exp(i + 1)` in h[t] at case.rnn:5:14"});
  EXPECT_EQ(values(graph, Op::State), Names{"h[t-1] at case.rnn:2:9"});
}

TEST(Places, LayersElementsAndTargetsTellWhichOne) {
  const Graph graph = graph_of(R"(cell C(x: []) -> (a, b) {
  a = tanh(x[t])
  b = exp(x[t])
}
network N(x: []) -> y {
  for l in 0..2 { z[l] = sin(x + l) }
  (p, q) = C(z[0] * 3)
  y = C2(p * q + z[1]) as last
}
cell C2(x: []) -> y {
  (u, v) = C(x[t])
  y = u + cos(v)
}
)",
                               "N");
  EXPECT_EQ(values(graph, Op::Sin), (Names{"z[0] at case.rnn:6:26", "z[1] at case.rnn:6:26"}));
  EXPECT_EQ(values(graph, Op::Tanh),
            (Names{"C.0.a at case.rnn:2:7", "last.C.0.a at case.rnn:2:7"}));
  EXPECT_EQ(values(graph, Op::Cos), Names{"`cos(v)` in last.y at case.rnn:12:11"});
  EXPECT_EQ(values(graph, Op::Mul),
            (Names{"`z[0] * 3` in p, q at case.rnn:7:14", "`p * q` in y at case.rnn:8:10"}));
}

TEST(Places, OfFunctionsTheirOwnAndOfThePreludeTheCall) {
  const Graph graph = graph_of(R"(fn half(v) = floor(v) / 2
cell C[H](x: [H]) -> y {
  y = half(x[t]) + 3 * softsign(x[t])
}
)",
                               "C");
  EXPECT_EQ(values(graph, Op::Floor), Names{"`floor(v)` in y at case.rnn:1:14"});
  EXPECT_EQ(values(graph, Op::Abs), Names{"`abs(v)` in y at case.rnn:3:7"});
}

TEST(Places, WithoutATextThereAreNone) {
  Graph graph;
  graph.inputs.push_back({"x", {}, {}});
  const NodeId x = graph.input(0);
  const NodeId y = graph.apply(Op::Tanh, {x});
  EXPECT_EQ(ValueNames(graph).of(x), "x[t]");
  EXPECT_EQ(ValueNames(graph).of(y), "%1 tanh");
  EXPECT_EQ(place_of(graph, graph[y].location), "");
  EXPECT_EQ(text_at(graph, graph[y].location), "");
}

TEST(Places, LongTextsAreCutBetweenCharacters) {
  const Graph graph = graph_of("cell C(x: []) -> y {\n  äöü = x[t]\n  y = äöü + 1 + äöü\n}\n", "C");
  EXPECT_EQ(text_at(graph, graph.equations.back().location, 2), "ä…");
  EXPECT_EQ(text_at(graph, graph.equations.back().location, 3), "ä…");
  EXPECT_EQ(text_at(graph, graph.equations.back().location), "äöü + 1 + äöü");
}

}  // namespace
}  // namespace rnnc
