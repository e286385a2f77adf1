#include "ir/graph/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/support/cells/elman_graph.h"
#include "tests/support/cells/random_graph.h"

namespace rnnc {
namespace {

const std::string kElman = test::elman_text("I, H = 64");

/// Equal but for source locations.
void expect_same(const Graph& a, const Graph& b) {
  const auto same_decls = [](const auto& left, const auto& right) {
    ASSERT_EQ(left.size(), right.size());
    for (size_t i = 0; i < left.size(); ++i) {
      EXPECT_EQ(left[i].name, right[i].name);
      EXPECT_EQ(left[i].type, right[i].type);
    }
  };
  EXPECT_EQ(a.name, b.name);
  ASSERT_EQ(a.dims.size(), b.dims.size());
  for (size_t i = 0; i < a.dims.size(); ++i) {
    EXPECT_EQ(a.dims[i].name, b.dims[i].name);
    EXPECT_EQ(a.dims[i].default_value, b.dims[i].default_value);
    EXPECT_EQ(a.dims[i].fixed, b.dims[i].fixed);
  }
  same_decls(a.inputs, b.inputs);
  same_decls(a.params, b.params);
  same_decls(a.states, b.states);
  for (size_t i = 0; i < a.states.size(); ++i) {
    EXPECT_EQ(a.states[i].init, b.states[i].init);
    EXPECT_EQ(a.states[i].next, b.states[i].next);
    EXPECT_EQ(a.states[i].reversed, b.states[i].reversed);
    EXPECT_EQ(a.states[i].delay_of, b.states[i].delay_of);
  }
  ASSERT_EQ(a.outputs.size(), b.outputs.size());
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    EXPECT_EQ(a.outputs[i].name, b.outputs[i].name);
    EXPECT_EQ(a.outputs[i].value, b.outputs[i].value);
  }
  ASSERT_EQ(a.nodes.size(), b.nodes.size());
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    EXPECT_EQ(a.nodes[i].op, b.nodes[i].op) << i;
    EXPECT_EQ(a.nodes[i].type, b.nodes[i].type) << i;
    EXPECT_EQ(a.nodes[i].operands, b.nodes[i].operands) << i;
    EXPECT_EQ(a.nodes[i].decl, b.nodes[i].decl) << i;
    EXPECT_EQ(a.nodes[i].delay, b.nodes[i].delay) << i;
    EXPECT_EQ(a.nodes[i].begin, b.nodes[i].begin) << i;
    EXPECT_EQ(a.nodes[i].end, b.nodes[i].end) << i;
    EXPECT_EQ(a.nodes[i].values, b.nodes[i].values) << i;
    EXPECT_EQ(std::signbit(a.nodes[i].value), std::signbit(b.nodes[i].value)) << i;
    EXPECT_TRUE(a.nodes[i].value == b.nodes[i].value || std::isnan(a.nodes[i].value)) << i;
    EXPECT_EQ(std::isnan(a.nodes[i].value), std::isnan(b.nodes[i].value)) << i;
  }
}

Graph parsed(std::string_view text) {
  Result<Graph> graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().message << "\n" << text;
  return graph.value_or(Graph());
}

TEST(Text, RoundTrip) {
  const Graph graph = parsed(kElman);
  EXPECT_EQ(to_string(graph), kElman);
  EXPECT_EQ(graph.states[0].next, 7U);
  EXPECT_EQ(graph[4].delay, 1U);
  EXPECT_EQ(graph.dims[1].default_value, 64);
}

constexpr const char* kStructure = R"(graph Structure(H, N is 3) {
  input x: [H]
  param A: [3, H]
  state h@2: [H] reversed delay of h
  state h: [H] reversed
  state x@1: [H]
  state s: [] delay of s
  %0 = input x : [H]
  %1 = param A : [3, H]
  %2 = state h@2 @ 1 : [H]
  %3 = state h @ 2 : [H]
  %4 = slice %0 from 0 to H / 2 : [H / 2]
  %5 = slice %0 from H / 2 to H - 1 : [H / 2 - 1]
  %6 = index %1 at 2 : [H]
  %7 = index %0 at 2 * H / 3 - 1 : []
  %8 = broadcast %7 : [H]
  %9 = concat %4, %5 : [H - 1]
  %10 = concat %9 : [H - 1]
  %11 = stack %0, %6 : [2, H]
  %12 = stack %7 : [1]
  %13 = transpose %1 : [H, 3]
  %14 = reverse %0 : [H]
  %15 = eye : [H, H]
  %16 = valid : []
  %17 = valid reversed : []
  %18 = reset @ 4 : []
  %19 = reset reversed : []
  %20 = vector 1, -2.5, 0.1 : [3]
  %21 = range : [2 * H]
  init h@2 = %7
  next h@2 = %3
}
)";

TEST(Text, StructureRoundTrips) {
  const Graph graph = parsed(kStructure);
  EXPECT_EQ(to_string(graph), kStructure);
  expect_same(graph, parsed(to_string(graph)));
  const Dim h = Dim::symbol("H");
  EXPECT_EQ(graph[4].begin, Dim(0));
  EXPECT_EQ(graph[5].end, h - 1);
  EXPECT_EQ(graph[7].begin, *Dim::divide(2 * h, 3) - 1);
  EXPECT_EQ(graph[19].decl, 1U);
  EXPECT_EQ(graph[20].values, (std::vector<double>{1, -2.5, 0.1}));
  EXPECT_TRUE(graph.dims[1].fixed);
  EXPECT_EQ(graph.dims[1].default_value, 3);
  EXPECT_EQ(graph.states[0].delay_of, 1U);
  EXPECT_TRUE(graph.states[0].reversed);
  EXPECT_FALSE(graph.states[2].delay_of);
  EXPECT_EQ(graph.states[3].delay_of, 3U);
}

TEST(Text, PositionsMayBeNamedAndSpacedAnyhow) {
  const Graph graph = parsed(
      "graph G(to, from) { input x: [to] %0 = input x : [to]\n"
      "%1 = slice %0 from to-to to # here\n to : [to] %2=index %0 at-1+2*from:[] }");
  EXPECT_EQ(graph[1].end, Dim::symbol("to"));
  EXPECT_EQ(graph[1].begin, Dim(0));
  EXPECT_EQ(graph[2].begin, 2 * Dim::symbol("from") - 1);
}

TEST(Text, RandomGraphsRoundTrip) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph graph = random_graph(seed, {.structure = seed % 2 == 1, .reversals = seed % 4 > 1});
    const std::string text = to_string(graph);
    const Graph back = parsed(text);
    expect_same(graph, back);
    EXPECT_EQ(to_string(back), text);
  }
}

TEST(Text, NumbersRoundTripExactly) {
  Graph graph;
  graph.name = "Numbers";
  for (const double value :
       {0.1, 1.0 / 3, -0.0, 1e300, 5e-324, -2.2250738585072009e-308, 1e22, 123456789.0,
        static_cast<double>(INFINITY), -static_cast<double>(INFINITY), static_cast<double>(NAN),
        -NAN + 0.0}) {
    graph.constant(value);
  }
  expect_same(graph, parsed(to_string(graph)));
}

TEST(Text, SpacingCommentsAndNamesAreFree) {
  const Graph graph = parsed(
      "# a comment\ngraph  G { input input:[ 2*H ]  state\nstate : [] # more\n"
      "%0=state state @3:[] %1 = input input @ 2 : [H+H]\tinit state=%0 next state=%0\n"
      "output LSTM.0.h\xc3\xa9=%1}\n\n# end");
  EXPECT_EQ(to_string(graph),
            "graph G() {\n"
            "  input input: [2 * H]\n"
            "  state state: []\n"
            "  %0 = state state @ 3 : []\n"
            "  %1 = input input @ 2 : [2 * H]\n"
            "  init state = %0\n"
            "  next state = %0\n"
            "  output LSTM.0.h\xc3\xa9 = %1\n"
            "}\n");
}

struct BadText {
  const char* text;
  const char* error;
};

class TextErrors : public testing::TestWithParam<BadText> {};

TEST_P(TextErrors, NameTheLineAndWhatWasExpected) {
  const Result<Graph> graph = parse_graph(GetParam().text);
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().message, GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    Text, TextErrors,
    testing::Values(
        BadText{"", "line 1: expected `graph`, found the end"},
        BadText{"\n\ngraf G {}", "line 3: expected `graph`, found `graf G {}`"},
        BadText{"graph {}", "line 1: expected a name, found `{}`"},
        BadText{"graph G(H", "line 1: expected `,` or `)`, found the end"},
        BadText{"graph G(H = x) {}", "line 1: expected a number, found `x) {}`"},
        BadText{"graph G(3) {}", "line 1: expected a name, found `3) {}`"},
        BadText{"graph G", "line 1: expected `{`, found the end"},
        BadText{"graph G {", "line 1: expected a declaration, a node or `}`, found the end"},
        BadText{"graph G {\n  inputs x: [3]\n}",
                "line 2: expected a declaration, a node or `}`, found `inputs x: [3]`"},
        BadText{"graph G {} x", "line 1: expected nothing after the graph, found `x`"},
        BadText{"graph G {\n  input x [3]\n}", "line 2: expected `:`, found `[3]`"},
        BadText{"graph G {\n  input x: 3\n}", "line 2: expected `[`, found `3`"},
        BadText{"graph G {\n  input x: [3\n}", "line 2: expected a shape, found `3`"},
        BadText{"graph G {\n  input x: [3 +]\n}",
                "line 2: expected a dim's name or a number at the end of `3 +`"},
        BadText{"graph G {\n  input x: [3,]\n}",
                "line 2: expected a dim's name or a number at the end of ``"},
        BadText{"graph G {\n  %1 = const 0 : []\n}", "line 2: expected node %0"},
        BadText{"graph G {\n  %x = const 0 : []\n}",
                "line 2: expected a number, found `x = const 0 : []`"},
        BadText{"graph G {\n  %0 const 0 : []\n}", "line 2: expected `=`, found `const 0 : []`"},
        BadText{"graph G {\n  %0 = frob %0 : []\n}", "line 2: there is no op `frob`"},
        BadText{"graph G {\n  %0 = const : []\n}", "line 2: expected a number, found `: []`"},
        BadText{"graph G {\n  %0 = const 1e999 : []\n}",
                "line 2: expected a smaller number, found `1e999 : []`"},
        BadText{"graph G {\n  %0 = input x : []\n}", "line 2: there is no input `x`"},
        BadText{"graph G {\n  %0 = param W : []\n}", "line 2: there is no param `W`"},
        BadText{"graph G {\n  %0 = state h @ 1 : []\n}", "line 2: there is no state `h`"},
        BadText{"graph G {\n  state h: []\n  %0 = state h @ -1 : []\n}",
                "line 3: expected a number, found `-1 : []`"},
        BadText{"graph G {\n  %0 = tanh 3 : []\n}", "line 2: expected `%`, found `3 : []`"},
        BadText{"graph G {\n  %0 = tanh %4294967295 : []\n}",
                "line 2: there is no node %4294967295"},
        BadText{"graph G {\n  %0 = tanh %4294967296 : []\n}",
                "line 2: expected a smaller number, found `4294967296 : []`"},
        BadText{"graph G {\n  %0 = add %0 %0 : []\n}", "line 2: expected `:`, found `%0 : []`"},
        BadText{"graph G {\n  %0 = concat : []\n}", "line 2: expected `%`, found `: []`"},
        BadText{"graph G {\n  %0 = valid backwards : []\n}",
                "line 2: expected `:`, found `backwards : []`"},
        BadText{"graph G(N is H) {\n}", "line 1: expected a number, found `H) {`"},
        BadText{"graph G {\n  %0 = vector 1, : [2]\n}", "line 2: expected a number, found `: [2]`"},
        BadText{"graph G {\n  %0 = eye %0 : []\n}", "line 2: expected `:`, found `%0 : []`"},
        BadText{"graph G {\n  %0 = slice %0 : []\n}", "line 2: expected `from`, found `: []`"},
        BadText{"graph G {\n  %0 = slice %0 from 2 : []\n}", "line 2: expected `to`, found `: []`"},
        BadText{"graph G {\n  %0 = slice %0 from 2 + to 3 : []\n}",
                "line 2: expected `to`, found `3 : []`"},
        BadText{"graph G {\n  %0 = index %0 : []\n}", "line 2: expected `at`, found `: []`"},
        BadText{"graph G {\n  %0 = index %0 at : []\n}",
                "line 2: expected a dim's name or a number at the end of ``"},
        BadText{"graph G {\n  %0 = index %0 at 1 / 0 : []\n}",
                "line 2: division by zero in `1 / 0`"},
        BadText{"graph G {\n  %0 = reverse %0 at 1 : []\n}",
                "line 2: expected `:`, found `at 1 : []`"},
        BadText{"graph G {\n  state h@2: [] delay h\n}", "line 2: expected `of`, found `h`"},
        BadText{"graph G {\n  state h@2: [] delay of\n}", "line 3: expected a name, found `}`"},
        BadText{"graph G {\n  state h@2: [] delay of h\n}", "line 3: there is no state `h`"},
        BadText{"graph G {\n  state h@2: [] delay of h reversed\n}",
                "line 2: expected a declaration, a node or `}`, found `reversed`"},
        BadText{"graph G {\n  init h = %0\n}", "line 2: there is no state `h`"},
        BadText{"graph G {\n  state h: []\n  next h %0\n}", "line 3: expected `=`, found `%0`"},
        BadText{"graph G {\n  output y = 0\n}", "line 2: expected `%`, found `0`"},
        BadText{"graph G {\n  \x01\xff\n}",
                "line 2: expected a declaration, a node or `}`, found `??`"}));

// Whatever the bytes are: a graph that prints, or an error.
TEST(Text, AnyBytesAreReadWithoutCrashing) {
  std::mt19937_64 engine(1);
  const std::string originals[] = {kElman, kStructure};
  const std::string alphabet = "%@:=,[]{}()+-*/# \n0h\xff";
  for (size_t i = 0; i < 20000; ++i) {
    const std::string& original = originals[i % 2];
    std::string text = original;
    for (size_t edits = 1 + engine() % 4; edits > 0; --edits) {
      const size_t place = engine() % text.size();
      switch (engine() % 4) {
        case 0:
          text[place] = static_cast<char>(engine());
          break;
        case 1:
          text[place] = alphabet[engine() % alphabet.size()];
          break;
        case 2:
          text.erase(place, 1 + engine() % 20);
          break;
        default:
          text.insert(place, original.substr(engine() % original.size(), 10));
          break;
      }
    }
    const Result<Graph> graph = parse_graph(text);
    if (!graph) {
      EXPECT_TRUE(graph.error().message.starts_with("line ")) << graph.error().message;
      continue;
    }
    const std::string printed = to_string(*graph);
    EXPECT_EQ(to_string(parsed(printed)), printed);
  }
}

constexpr const char* kBackward = R"(graph Backward() descending {
  input g: [2]
  input x: [3]
  param R: [2, 2]
  state h: [2]
  %0 = input g : [2]
  %1 = state h @ 1 : [2]
  %2 = add %0, %1 : [2]
  %3 = param R : [2, 2]
  %4 = matmul %2, %3 : [2]
  %5 = input x : [3]
  %6 = total %2, %5 : [2, 3]
  %7 = total %2 : [2]
  %8 = final h : [2]
  %9 = total %8 : [2]
  %10 = add %7, %9 : [2]
  %11 = const 0 : []
  init h = %11
  next h = %4
  result W = %6
  result b = %10
  result h = %8
}
)";

TEST(Text, DescendingGraphsAndResultsReadBack) {
  const Graph graph = parsed(kBackward);
  EXPECT_TRUE(graph.descending);
  EXPECT_EQ(graph.results.size(), 3u);
  EXPECT_EQ(to_string(graph), kBackward);
  const std::string dot = to_dot(graph);
  EXPECT_NE(dot.find("n1 [label=\"h[t+1] [2]\""), std::string::npos) << dot;
  EXPECT_NE(dot.find("n8 [label=\"final h [2]\""), std::string::npos) << dot;
  EXPECT_NE(dot.find("n6 -> result0;"), std::string::npos) << dot;
}

TEST(Text, BrokenGraphsPrint) {
  Graph graph;
  graph.name = "Broken";
  graph.nodes.resize(2);
  graph.nodes[0].op = Op::Param;
  graph.nodes[0].decl = 3;
  graph.nodes[1].op = Op::Tanh;
  EXPECT_EQ(to_string(graph), "graph Broken() {\n  %0 = param ?3 : []\n  %1 = tanh : []\n}\n");
}

TEST(Text, DotShowsPositionsAndDirections) {
  const std::string dot = to_dot(parsed(kStructure));
  EXPECT_NE(dot.find("n5 [label=\"H / 2:H - 1 [H / 2 - 1]\""), std::string::npos) << dot;
  EXPECT_NE(dot.find("n6 [label=\"at 2 [H]\""), std::string::npos) << dot;
  EXPECT_NE(dot.find("n19 [label=\"reset in reverse []\""), std::string::npos) << dot;
}

TEST(Text, DotDrawsNodesAndTimeEdges) {
  const std::string dot = to_dot(parsed(kElman));
  EXPECT_TRUE(dot.starts_with("digraph \"Elman\" {")) << dot;
  EXPECT_NE(dot.find("n0 [label=\"W [H, I]\""), std::string::npos) << dot;
  EXPECT_NE(dot.find("n4 [label=\"h[t-1] [H]\""), std::string::npos) << dot;
  EXPECT_NE(dot.find("n0 -> n2;"), std::string::npos) << dot;
  EXPECT_NE(dot.find("n7 -> n4 [label=\"h @ 1\", style=dashed"), std::string::npos) << dot;
  EXPECT_NE(dot.find("out0 [label=\"h\""), std::string::npos) << dot;
}

}  // namespace
}  // namespace rnnc
