#include "ir/graph/verify.h"

#include <gtest/gtest.h>

#include "ir/graph/text.h"

namespace rnnc {
namespace {

constexpr const char* kGood = R"(graph Good(I, H) {
  input x: [I]
  param W: [H, I]
  state h: [H]
  %0 = param W : [H, I]
  %1 = input x : [I]
  %2 = matmul %0, %1 : [H]
  %3 = state h @ 1 : [H]
  %4 = add %2, %3 : [H]
  %5 = const 0 : []
  init h = %5
  next h = %4
  output h = %4
}
)";

Graph good() {
  Result<Graph> graph = parse_graph(kGood);
  EXPECT_TRUE(graph) << graph.error().message;
  return graph.value_or(Graph());
}

std::string error(const Graph& graph) {
  const Status status = verify(graph);
  return status ? "no error" : status.error().message;
}

TEST(Verify, AcceptsAGoodGraph) {
  EXPECT_EQ(error(good()), "no error");
}

TEST(Verify, Names) {
  Graph graph = good();
  graph.name = "two words";
  EXPECT_EQ(error(graph), "graph `two words`: not a name");
  graph = good();
  graph.dims[0].name = "";
  EXPECT_EQ(error(graph), "dim ``: not a name");
  graph = good();
  graph.dims[0].name = "H";
  EXPECT_EQ(error(graph), "dim `H`: the name is taken");
  graph = good();
  graph.dims[1].fixed = true;
  EXPECT_EQ(error(graph), "dim `H` is fixed without a value");
  graph = good();
  graph.params[0].name = "x";
  EXPECT_EQ(error(graph), "param `x`: the name is taken");
  graph = good();
  graph.states[0].name = "3h";
  EXPECT_EQ(error(graph), "state `3h`: not a name");
  graph = good();
  graph.outputs.push_back(graph.outputs[0]);
  EXPECT_EQ(error(graph), "output `h`: the name is taken");
}

TEST(Verify, Shapes) {
  Graph graph = good();
  graph.params[0].type.shape = {1, 2, 3, 4, 5};
  EXPECT_EQ(error(graph), "param `W`: [1, 2, 3, 4, 5] has more than 4 axes");
  graph = good();
  graph.inputs[0].type.shape = {Dim::symbol("K")};
  EXPECT_EQ(error(graph), "input `x`: [K]: dim `K` is not declared");
  graph = good();
  graph.states[0].type.shape = {-1};
  EXPECT_EQ(error(graph), "state `h`: [-1]: `-1` is no size");
  graph = good();
  graph.states[0].type.shape = {Dim(INT64_MAX) * 2};
  EXPECT_EQ(error(graph), "state `h`: [(too large)]: `(too large)` is no size");
  graph = good();
  graph.nodes[2].type.shape = {Dim::symbol("K")};
  EXPECT_EQ(error(graph), "%2 = matmul: [K]: dim `K` is not declared");
}

TEST(Verify, Operands) {
  Graph graph = good();
  graph.nodes[4].operands = {2};
  EXPECT_EQ(error(graph), "%4 = add: takes 2 operands, has 1");
  graph = good();
  graph.nodes[0].operands = {0};
  EXPECT_EQ(error(graph), "%0 = param: takes 0 operands, has 1");
  graph = good();
  graph.nodes[4].operands = {2, 4};
  EXPECT_EQ(error(graph), "%4 = add: operand %4 does not come before it");
  graph = good();
  graph.nodes[4].operands = {2, 99};
  EXPECT_EQ(error(graph), "%4 = add: operand %99 does not come before it");
  graph = good();
  graph.nodes[4].operands = {1, 3};
  EXPECT_EQ(error(graph), "%4 = add: does not take operands of shapes [I], [H]");
}

TEST(Verify, Types) {
  Graph graph = good();
  graph.nodes[4].type.shape = {Dim::symbol("I")};
  EXPECT_EQ(error(graph), "%4 = add: its shape is [H], not [I]");
  graph = good();
  graph.nodes[1].type.shape = {Dim::symbol("H")};
  EXPECT_EQ(error(graph), "%1 = input: its shape is [H], but input `x` is [I]");
  graph = good();
  graph.nodes[5].type.shape = {Dim::symbol("H")};
  EXPECT_EQ(error(graph), "%5 = const: a constant is a scalar");
}

TEST(Verify, Leaves) {
  Graph graph = good();
  graph.nodes[0].decl = 1;
  EXPECT_EQ(error(graph), "%0 = param: there is no param number 1");
  graph = good();
  graph.nodes[1].decl = 7;
  EXPECT_EQ(error(graph), "%1 = input: there is no input number 7");
  graph = good();
  graph.nodes[3].decl = 2;
  EXPECT_EQ(error(graph), "%3 = state: there is no state number 2");
  graph = good();
  graph.nodes[3].delay = 0;
  EXPECT_EQ(error(graph), "%3 = state: a state is read with a delay of at least 1");
}

TEST(Verify, States) {
  Graph graph = good();
  graph.states[0].init = kNoNode;
  EXPECT_EQ(error(graph), "state `h` has no init");
  graph.states[0].init = 1;
  EXPECT_EQ(error(graph), "state `h` is [H], its init %1 is [I]");
  graph.states[0].init = 2;
  EXPECT_EQ(error(graph), "the init %2 of state `h` varies with time");
  graph.states[0].init = 3;
  EXPECT_EQ(error(graph), "the init %3 of state `h` varies with time");
  graph = good();
  graph.states[0].next = kNoNode;
  EXPECT_EQ(error(graph), "state `h` has no next");
  graph.states[0].next = 5;
  EXPECT_EQ(error(graph), "state `h` is [H], its next %5 is []");
}

TEST(Verify, Outputs) {
  Graph graph = good();
  graph.outputs[0].value = kNoNode;
  EXPECT_EQ(error(graph), "output `h` has no value");
}

TEST(Verify, TakesArraysOfBlocks) {
  Graph graph = good();
  graph.params.push_back({"R", Type{{1, 2, 3, 4}}, {}});
  graph.param(1);
  EXPECT_EQ(error(graph), "no error");
}

/// Of a graph with an input [4, H], a scalar state that runs in reverse, and these lines.
std::string complaint(std::string_view lines) {
  const Result<Graph> graph = parse_graph(
      fmt::format("graph G(H) {{ input x: [4, H] input v: [H] param s: []\n"
                  "state r: [H] reversed state h: [H] state d: [H]\n"
                  "%0 = input x : [4, H] %1 = input v : [H] %2 = param s : []\n"
                  "%3 = state r @ 1 : [H] %4 = state h @ 1 : [H]\n"
                  "init r = %2 next r = %3 init h = %2 next h = %4 init d = %2 next d = %4\n{}\n}}",
                  lines));
  EXPECT_TRUE(graph) << graph.error().message;
  return graph ? error(*graph) : "";
}

TEST(Verify, Structure) {
  EXPECT_EQ(complaint("%5 = eye : [H, H] %6 = valid : [] %7 = reset reversed : []\n"
                      "%8 = broadcast %2 : [H] %9 = slice %0 from 1 to 4 : [3, H]\n"
                      "%10 = slice %1 from H / 2 to H : [H / 2] %11 = index %0 at 3 : [H]\n"
                      "%12 = concat %9, %0 : [7, H] %13 = stack %1, %11 : [2, H]\n"
                      "%14 = transpose %0 : [H, 4] %15 = reverse %0 : [4, H]\n"
                      "%16 = vector 1, 2 : [2] %17 = range : [H]"),
            "no error");
  EXPECT_EQ(complaint("%5 = vector 1, 2 : [3]"), "%5 = vector: its shape is [2], not [3]");
  EXPECT_EQ(complaint("%5 = vector 1, 2 : [H]"), "%5 = vector: its shape is [2], not [H]");
  EXPECT_EQ(complaint("%5 = range : []"), "%5 = range: a range is a vector");
  EXPECT_EQ(complaint("%5 = range : [H, H]"), "%5 = range: a range is a vector");
  EXPECT_EQ(complaint("%5 = eye : [H, 4]"), "%5 = eye: [H, 4] is no square matrix");
  EXPECT_EQ(complaint("%5 = eye : [H]"), "%5 = eye: [H] is no square matrix");
  EXPECT_EQ(complaint("%5 = valid : [H]"), "%5 = valid: a mask is a scalar");
  EXPECT_EQ(complaint("%5 = reset reversed : [H]"), "%5 = reset: a mask is a scalar");
  EXPECT_EQ(complaint("%5 = broadcast %1 : [H]"),
            "%5 = broadcast: does not take operands of shapes [H]");
  EXPECT_EQ(complaint("%5 = broadcast %2, %2 : [H]"), "%5 = broadcast: takes 1 operands, has 2");
  EXPECT_EQ(complaint("%5 = broadcast %2 : [K]"), "%5 = broadcast: [K]: dim `K` is not declared");
  EXPECT_EQ(complaint("%5 = concat %0, %1 : [H]"),
            "%5 = concat: does not take operands of shapes [4, H], [H]");
  EXPECT_EQ(complaint("%5 = concat %2 : []"), "%5 = concat: does not take operands of shapes []");
  EXPECT_EQ(complaint("%5 = concat %1, %1 : [H]"), "%5 = concat: its shape is [2 * H], not [H]");
  EXPECT_EQ(complaint("%5 = stack %1, %2 : [2, H]"),
            "%5 = stack: does not take operands of shapes [H], []");
  EXPECT_EQ(complaint("%5 = stack %1 : [H]"), "%5 = stack: its shape is [1, H], not [H]");
  EXPECT_EQ(complaint("%5 = transpose %1 : [H]"),
            "%5 = transpose: does not take operands of shapes [H]");
  EXPECT_EQ(complaint("%5 = transpose %0 : [4, H]"),
            "%5 = transpose: its shape is [H, 4], not [4, H]");
  EXPECT_EQ(complaint("%5 = reverse %1 : [4, H]"), "%5 = reverse: its shape is [H], not [4, H]");
  Graph graph = good();
  graph.nodes[4].op = Op::Concat;
  graph.nodes[4].operands = {};
  EXPECT_EQ(error(graph), "%4 = concat: takes one operand or more, has none");
  graph = good();
  graph.nodes.push_back({.op = Op::Valid, .type = {}, .operands = {}, .decl = 2, .location = {}});
  EXPECT_EQ(error(graph), "%6 = valid: there is no direction 2");
  graph.nodes.back().decl = 0;
  graph.nodes.back().delay = 3;
  EXPECT_EQ(error(graph), "%6 = valid: is of its own step alone");
}

TEST(Verify, SlicesAndIndices) {
  EXPECT_EQ(complaint("%5 = slice %2 from 0 to 1 : [1]"),
            "%5 = slice: does not take operands of shapes []");
  EXPECT_EQ(complaint("%5 = index %2 at 0 : []"),
            "%5 = index: does not take operands of shapes []");
  EXPECT_EQ(complaint("%5 = slice %0 from 1 to 3 : [3, H]"),
            "%5 = slice: its shape is [2, H], not [3, H]");
  EXPECT_EQ(complaint("%5 = index %0 at 0 : [4]"), "%5 = index: its shape is [H], not [4]");
  EXPECT_EQ(complaint("%5 = slice %0 from 1 to 5 : [4, H]"),
            "%5 = slice: from 1 to 5 is outside 0 to 4");
  EXPECT_EQ(complaint("%5 = slice %1 from 0 to H + 1 : [H + 1]"),
            "%5 = slice: from 0 to H + 1 is outside 0 to H");
  EXPECT_EQ(complaint("%5 = slice %1 from -1 to H - 1 : [H]"),
            "%5 = slice: from -1 to H - 1 is outside 0 to H");
  EXPECT_EQ(complaint("%5 = index %0 at 4 : [H]"), "%5 = index: from 4 to 5 is outside 0 to 4");
  EXPECT_EQ(complaint("%5 = index %1 at H : []"), "%5 = index: from H to H + 1 is outside 0 to H");
  EXPECT_EQ(complaint("%5 = index %1 at -1 : []"), "%5 = index: from -1 to 0 is outside 0 to H");
  EXPECT_EQ(complaint("%5 = index %1 at K : []"), "%5 = index: dim `K` is not declared");
  EXPECT_EQ(complaint("%5 = slice %1 from K to K + 2 : [2]"),
            "%5 = slice: dim `K` is not declared");
}

TEST(Verify, Directions) {
  const char* const mixed = "some operands run forward, some in reverse";
  EXPECT_EQ(complaint("%5 = add %3, %4 : [H]"), fmt::format("%5 = add: {}", mixed));
  EXPECT_EQ(complaint("%5 = concat %1, %3 : [2 * H]"), fmt::format("%5 = concat: {}", mixed));
  EXPECT_EQ(complaint("%5 = reverse %1 : [H] %6 = add %5, %4 : [H]"),
            fmt::format("%6 = add: {}", mixed));
  EXPECT_EQ(complaint("%5 = valid : [] %6 = where %5, %3, %3 : [H]"),
            fmt::format("%6 = where: {}", mixed));
  EXPECT_EQ(complaint("%5 = reset reversed : [] %6 = where %5, %4, %4 : [H]"),
            fmt::format("%6 = where: {}", mixed));
  EXPECT_EQ(complaint("%5 = reverse %1 : [H] %6 = mul %5, %3 : [H] %7 = mul %6, %2 : [H]\n"
                      "%8 = reverse %7 : [H] %9 = add %8, %4 : [H] output y = %9\n"
                      "%10 = reset reversed : [] %11 = where %10, %6, %2 : [H] next r = %11"),
            "no error");
  EXPECT_EQ(complaint("next r = %4"), "state `r` runs in reverse, its next %4 forward");
  EXPECT_EQ(complaint("next h = %3"), "state `h` runs forward, its next %3 in reverse");
  EXPECT_EQ(complaint("output y = %3"), "output `y` runs forward, its value %3 in reverse");
  EXPECT_EQ(complaint("%5 = valid reversed : [] output y = %5"),
            "output `y` runs forward, its value %5 in reverse");
  EXPECT_EQ(complaint("%5 = reverse %2 : [] %6 = add %5, %4 : [H] %7 = add %5, %3 : [H]\n"
                      "output y = %5"),
            "no error");  // a Reverse of what is the same at all times
}

TEST(Verify, NoRecurrencePassesThroughAReverse) {
  EXPECT_EQ(complaint("%5 = reverse %4 : [H] %6 = add %5, %3 : [H] next r = %6\n"
                      "%7 = reverse %6 : [H] next h = %7"),
            "a recurrence passes through a `reverse`");
  EXPECT_EQ(complaint("%5 = reverse %4 : [H] %6 = add %5, %3 : [H] next r = %6\n"
                      "%7 = reverse %6 : [H] output y = %7"),
            "no error");
}

TEST(Verify, DelaysOfStates) {
  const auto with = [](uint32_t state, uint32_t of, const auto& damage) {
    Graph graph = *parse_graph(
        "graph G(H) { state h: [H] state h@2: [H] delay of h\n"
        "%0 = state h @ 1 : [H] %1 = const 0 : [] %2 = state h@2 @ 1 : [H]\n"
        "init h = %1 next h = %2 init h@2 = %1 next h@2 = %0 }");
    graph.states[state].delay_of = of;
    damage(graph);
    return error(graph);
  };
  const auto nothing = [](Graph&) {};
  EXPECT_EQ(with(1, 0, nothing), "no error");
  EXPECT_EQ(with(1, 7, nothing), "state `h@2` is a delay of state number 7, which there is not");
  EXPECT_EQ(with(1, 1, nothing), "state `h@2` is a delay of itself");
  EXPECT_EQ(with(0, 1, nothing), "state `h` is a delay of itself");
  EXPECT_EQ(with(1, 0, [](Graph& graph) { graph.states[1].reversed = true; }),
            "state `h@2` does not run as state `h`, which it is a delay of");
  EXPECT_EQ(with(1, 0,
                 [](Graph& graph) {
                   graph.states[1].type = graph.nodes[2].type = Type{};
                   graph.states[1].next = 1;
                   graph.states[0].next = 0;
                 }),
            "state `h@2` is [], state `h` that it is a delay of is [H]");
}

/// `body` in a graph with an input x [2], a state h [2] and param W [2, 3].
std::string error_after(const std::string& body) {
  const Result<Graph> graph = parse_graph(
      "graph G {\n input x: [2]\n param W: [2, 3]\n state h: [2]\n %0 = input x : [2]\n"
      " %1 = state h @ 1 : [2]\n %2 = const 0 : []\n %3 = total %0 : [2]\n %4 = final h : [2]\n" +
      body + "\n}");
  EXPECT_TRUE(graph) << graph.error().message;
  return error(graph.value_or(Graph()));
}

TEST(Verify, WhatComesAfterAllSteps) {
  const std::string state = " init h = %2\n next h = %1\n";
  EXPECT_EQ(error_after(state + "result b = %3\nresult h = %4"), "no error");
  EXPECT_EQ(error_after("%5 = total %0, %1 : [2, 2]\n" + state + "result R = %5"), "no error");
  EXPECT_EQ(error_after("%5 = total %0, %1 : [2, 1, 1]\n" + state + "result R = %5"), "no error");
  EXPECT_EQ(error_after("%5 = total %0, %1 : [4]\n" + state),
            "%5 = total: its shape is [4], its operands' [2], [2]");
  EXPECT_EQ(error_after("%5 = add %3, %0 : [2]\n" + state),
            "%5 = add: comes after all steps, its operand %0 is a step's");
  EXPECT_EQ(error_after("%5 = total %3 : [2]\n" + state), "%5 = total: %3 has no rows to add up");
  EXPECT_EQ(error_after("%5 = total %0, %4 : [2, 2]\n" + state),
            "%5 = total: one operand is of each step, the other of none");
  EXPECT_EQ(error_after(" init h = %3\n next h = %1"),
            "state `h` needs %3, which comes after all steps");
  EXPECT_EQ(error_after(state + "output y = %3"), "output `y` is %3, which comes after all steps");
  EXPECT_EQ(error_after(state + "result y = %0"), "result `y` is %0, a value of each step");
  EXPECT_EQ(error_after(state + "result y = %3\nresult y = %3"), "result `y`: the name is taken");
}

}  // namespace
}  // namespace rnnc
