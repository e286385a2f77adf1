#include "ir/verify.h"

#include <gtest/gtest.h>

#include "ir/text.h"

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
  graph.params[0].type.shape = {1, 2, 3, 4};
  EXPECT_EQ(error(graph), "param `W`: [1, 2, 3, 4] has more than 3 axes");
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

}  // namespace
}  // namespace rnnc
