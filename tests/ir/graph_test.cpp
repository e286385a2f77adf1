#include "ir/graph/graph.h"

#include <gtest/gtest.h>

#include "ir/graph/text.h"
#include "tests/support/expect_bug.h"

namespace rnnc {
namespace {

const Dim kH = Dim::symbol("H");
const Dim kI = Dim::symbol("I");
const Dim kN = Dim::symbol("N");

std::string inferred(Op op, const std::vector<Shape>& shapes) {
  std::vector<Type> types;
  for (const Shape& shape : shapes) types.push_back(Type{shape});
  const std::optional<Type> type = infer_type(op, types);
  return type ? to_string(type->shape) : "nothing";
}

TEST(InferType, MatMulIsNumPys) {
  EXPECT_EQ(inferred(Op::MatMul, {{kH, kI}, {kI}}), "[H]");
  EXPECT_EQ(inferred(Op::MatMul, {{kI}, {kI, kH}}), "[H]");
  EXPECT_EQ(inferred(Op::MatMul, {{kI}, {kI}}), "[]");
  EXPECT_EQ(inferred(Op::MatMul, {{kH, kI}, {kI, kN}}), "[H, N]");
  EXPECT_EQ(inferred(Op::MatMul, {{2 * kH}, {kH + kH}}), "[]");
  EXPECT_EQ(inferred(Op::MatMul, {{kH, kI}, {kH}}), "nothing");
  EXPECT_EQ(inferred(Op::MatMul, {{kH}, {kI}}), "nothing");
  EXPECT_EQ(inferred(Op::MatMul, {{}, {kI}}), "nothing");
  EXPECT_EQ(inferred(Op::MatMul, {{kI}, {}}), "nothing");
  EXPECT_EQ(inferred(Op::MatMul, {{kN, kH, kI}, {kI}}), "nothing");
  EXPECT_EQ(inferred(Op::MatMul, {{kI}}), "nothing");
}

TEST(InferType, MatMulOfBlocks) {
  const Dim p = kH;
  const Dim q = *Dim::divide(kI, kN);  // I in N pieces
  EXPECT_EQ(inferred(Op::MatMul, {{kN, p, q}, {kI}}), "[H * N]");
  EXPECT_EQ(inferred(Op::MatMul, {{kI}, {kN, q, p}}), "[H * N]");
  EXPECT_EQ(inferred(Op::MatMul, {{3, 2, 4}, {12}}), "[6]");
  EXPECT_EQ(inferred(Op::MatMul, {{6}, {3, 2, 4}}), "[12]");
  EXPECT_EQ(inferred(Op::MatMul, {{3, 2, 4}, {6}}), "nothing");
  EXPECT_EQ(inferred(Op::MatMul, {{3, 2, 4}, {3, 4}}), "nothing");
  EXPECT_EQ(inferred(Op::MatMul, {{3, 2, 4}, {3, 4, 2}}), "nothing");
  EXPECT_EQ(inferred(Op::MatMul, {{3, 2, 4}, {}}), "nothing");
}

TEST(InferType, Structure) {
  EXPECT_EQ(inferred(Op::Concat, {{kH}, {kI}, {2}}), "[H + I + 2]");
  EXPECT_EQ(inferred(Op::Concat, {{kH, kN}, {kI, kN}}), "[H + I, N]");
  EXPECT_EQ(inferred(Op::Concat, {{kH}}), "[H]");
  EXPECT_EQ(inferred(Op::Concat, {{kH, kN}, {kH, kI}}), "nothing");
  EXPECT_EQ(inferred(Op::Concat, {{kH}, {}}), "nothing");
  EXPECT_EQ(inferred(Op::Concat, {{}, {}}), "nothing");
  EXPECT_EQ(inferred(Op::Concat, {}), "nothing");
  EXPECT_EQ(inferred(Op::Stack, {{kH}, {kH}}), "[2, H]");
  EXPECT_EQ(inferred(Op::Stack, {{}, {}, {}}), "[3]");
  EXPECT_EQ(inferred(Op::Stack, {{kH}, {kI}}), "nothing");
  EXPECT_EQ(inferred(Op::Stack, {}), "nothing");
  EXPECT_EQ(inferred(Op::Transpose, {{kH, kI}}), "[I, H]");
  EXPECT_EQ(inferred(Op::Transpose, {{kH}}), "nothing");
  EXPECT_EQ(inferred(Op::Transpose, {{2, 3, 4}}), "nothing");
  EXPECT_EQ(inferred(Op::Reverse, {{kH}}), "[H]");
  EXPECT_EQ(inferred(Op::Broadcast, {{}}), "nothing");  // its operand alone does not tell
  EXPECT_EQ(inferred(Op::Slice, {{kH}}), "nothing");
  EXPECT_EQ(inferred(Op::Index, {{kH}}), "nothing");
}

TEST(InferType, ReductionsDropTheLastAxis) {
  for (const Op op : {Op::Sum, Op::Mean, Op::Var, Op::ReduceMin, Op::ReduceMax}) {
    EXPECT_EQ(inferred(op, {{kH}}), "[]");
    EXPECT_EQ(inferred(op, {{kH, kI}}), "[H]");
    EXPECT_EQ(inferred(op, {{}}), "nothing");
    EXPECT_EQ(inferred(op, {{kH}, {kH}}), "nothing");
  }
}

TEST(InferType, OnlyScalarsBroadcast) {
  EXPECT_EQ(inferred(Op::Tanh, {{kH}}), "[H]");
  EXPECT_EQ(inferred(Op::Add, {{kH}, {kH}}), "[H]");
  EXPECT_EQ(inferred(Op::Add, {{}, {kH}}), "[H]");
  EXPECT_EQ(inferred(Op::Add, {{kH, kI}, {}}), "[H, I]");
  EXPECT_EQ(inferred(Op::Add, {{}, {}}), "[]");
  EXPECT_EQ(inferred(Op::Where, {{}, {}, {kH}}), "[H]");
  EXPECT_EQ(inferred(Op::Add, {{kH}, {kI}}), "nothing");
  EXPECT_EQ(inferred(Op::Add, {{kH}, {1}}), "nothing");
  EXPECT_EQ(inferred(Op::Add, {{kH}, {kH, kH}}), "nothing");
  EXPECT_EQ(inferred(Op::Where, {{kH}, {}, {kI}}), "nothing");
  EXPECT_EQ(inferred(Op::Add, {{kH}}), "nothing");
  EXPECT_EQ(inferred(Op::Constant, {}), "nothing");
}

/// h = tanh(W @ x + h'), with two dims.
Graph elman() {
  Graph graph;
  graph.name = "Elman";
  graph.dims = {{"I", std::nullopt}, {"H", 64}};
  graph.inputs.push_back({"x", Type{{kI}}, {}});
  graph.params.push_back({"W", Type{{kH, kI}}, {}});
  graph.states.push_back({"h", Type{{kH}}, kNoNode, kNoNode, {}});
  const NodeId product = graph.apply(Op::MatMul, {graph.param(0), graph.input(0, 1, {0, 5, 9})});
  graph.states[0].next = graph.apply(Op::Tanh, {graph.apply(Op::Add, {product, graph.state(0)})});
  graph.states[0].init = graph.constant(0.5);
  graph.outputs.push_back({"h", graph.states[0].next, {}});
  return graph;
}

TEST(Graph, BuildersFillNodes) {
  const Graph graph = elman();
  EXPECT_EQ(to_string(graph), R"(graph Elman(I, H = 64) {
  input x: [I]
  param W: [H, I]
  state h: [H]
  %0 = param W : [H, I]
  %1 = input x @ 1 : [I]
  %2 = matmul %0, %1 : [H]
  %3 = state h @ 1 : [H]
  %4 = add %2, %3 : [H]
  %5 = tanh %4 : [H]
  %6 = const 0.5 : []
  init h = %6
  next h = %5
  output h = %5
}
)");
  EXPECT_EQ(graph[1].location.begin, 5U);
  EXPECT_EQ(graph[1].location.end, 9U);
}

TEST(Graph, BuildersOfStructure) {
  Graph graph;
  graph.name = "Structure";
  graph.dims = {{"H", std::nullopt}};
  graph.params.push_back({"A", Type{{3, kH}}, {}});
  const NodeId a = graph.param(0);
  const NodeId row = graph.index(a, 1);
  graph.broadcast(graph.index(row, 0), {kH, 2});
  graph.slice(row, *Dim::divide(kH, 2), kH);
  graph.eye(kH);
  graph.vector({1, 0.5});
  graph.range(kH);
  graph.valid(false);
  graph.reset(true);
  EXPECT_EQ(to_string(graph), R"(graph Structure(H) {
  param A: [3, H]
  %0 = param A : [3, H]
  %1 = index %0 at 1 : [H]
  %2 = index %1 at 0 : []
  %3 = broadcast %2 : [H, 2]
  %4 = slice %1 from H / 2 to H : [H / 2]
  %5 = eye : [H, H]
  %6 = vector 1, 0.5 : [2]
  %7 = range : [H]
  %8 = valid : []
  %9 = reset reversed : []
}
)");
  graph.bind({{"H", 6}});
  EXPECT_EQ(graph[4].begin, Dim(3));
  EXPECT_EQ(graph[4].end, Dim(6));
  EXPECT_BUG(graph.broadcast(a, {3}), "this is a bug in rnnc");
  EXPECT_BUG(graph.slice(2, 0, 1), "this is a bug in rnnc");
  EXPECT_BUG(graph.index(2, 0), "this is a bug in rnnc");
}

TEST(Graph, BuildersRefuseWhatDoesNotFit) {
  Graph graph = elman();
  EXPECT_BUG(graph.input(1), "this is a bug in rnnc");
  EXPECT_BUG(graph.param(1), "this is a bug in rnnc");
  EXPECT_BUG(graph.state(1), "this is a bug in rnnc");
  EXPECT_BUG(graph.state(0, 0), "this is a bug in rnnc.*state `h` read at its own step");
  EXPECT_BUG(graph.apply(Op::Add, {0, 5}), "this is a bug in rnnc.*`add` on \\[H, I\\] \\[H\\]");
  EXPECT_BUG(graph.apply(Op::Tanh, {7}), "this is a bug in rnnc");
  EXPECT_BUG(graph.apply(Op::Input, {}), "this is a bug in rnnc");
}

TEST(Graph, BindReplacesSymbols) {
  Graph graph = elman();
  graph.bind({{"I", 3}});
  EXPECT_EQ(graph.dims.size(), 1U);
  EXPECT_EQ(to_string(graph.params[0].type.shape), "[H, 3]");
  graph.bind({{"H", 4}});
  EXPECT_TRUE(graph.dims.empty());
  EXPECT_EQ(to_string(graph.inputs[0].type.shape), "[3]");
  EXPECT_EQ(to_string(graph.states[0].type.shape), "[4]");
  EXPECT_EQ(to_string(graph[0].type.shape), "[4, 3]");
  EXPECT_EQ(to_string(graph[5].type.shape), "[4]");
}

std::string completion_error(const Graph& graph, const DimBindings& bindings) {
  const Result<DimBindings> result = complete_bindings(graph, bindings);
  return result ? "no error" : result.error().message;
}

TEST(CompleteBindings, TakesDefaults) {
  EXPECT_EQ(complete_bindings(elman(), {{"I", 3}}).value(), (DimBindings{{"H", 64}, {"I", 3}}));
  EXPECT_EQ(complete_bindings(elman(), {{"I", 3}, {"H", 5}}).value(),
            (DimBindings{{"H", 5}, {"I", 3}}));
}

TEST(CompleteBindings, NamesWhatIsMissingAndWhatIsUnknown) {
  Graph graph = elman();
  EXPECT_EQ(completion_error(graph, {}), "Elman: no value for dim `I`");
  EXPECT_EQ(completion_error(graph, {{"I", 3}, {"J", 3}}),
            "Elman has no dim `J`; its dims are `I`, `H`");
  graph.dims[1].default_value.reset();
  EXPECT_EQ(completion_error(graph, {{"J", 3}, {"K", 3}}),
            "Elman: no value for dims `I`, `H`\n"
            "Elman has no dim `J`; its dims are `I`, `H`\n"
            "Elman has no dim `K`; its dims are `I`, `H`");
  graph.bind({{"I", 3}, {"H", 4}});
  EXPECT_EQ(completion_error(graph, {{"H", 4}}), "Elman has no dim `H`; it has none");
}

TEST(CompleteBindings, KeepsFixedDims) {
  Graph graph = elman();
  graph.dims.push_back({"L", 3, /*fixed=*/true});
  EXPECT_EQ(complete_bindings(graph, {{"I", 3}, {"L", 3}}).value(),
            complete_bindings(graph, {{"I", 3}}).value());
  EXPECT_EQ(completion_error(graph, {{"I", 3}, {"L", 4}}),
            "Elman was made for `L` = 3 and cannot be bound to 4: lower it for that");
}

TEST(CompleteBindings, ChecksSlicesAndIndices) {
  Graph graph = elman();
  const NodeId vector = 1;  // [I]
  graph.slice(vector, 2, kI - 1);
  graph.slice(vector, *Dim::divide(kH, 2), kI);
  graph.index(vector, kH);
  EXPECT_EQ(completion_error(graph, {{"I", 6}, {"H", 4}}), "no error");
  EXPECT_EQ(completion_error(graph, {{"I", 5}, {"H", 8}}),
            "index H of [I]: 8 is out of range, the last is 4");
  EXPECT_EQ(completion_error(graph, {{"I", 5}, {"H", 10}}),
            "slice H / 2:I of [I]: 5:5 is empty\n"
            "index H of [I]: 10 is out of range, the last is 4");
  EXPECT_EQ(completion_error(graph, {{"I", 3}, {"H", 2}}), "slice 2:I - 1 of [I]: 2:2 is empty");
  EXPECT_EQ(completion_error(graph, {{"I", 6}, {"H", 5}}),
            "slice H / 2:I of [I]: `H / 2` is not a whole number with H = 5: 5 / 2 leaves 1");
  graph = elman();
  graph.slice(vector, 0, kH);
  graph.index(vector, kH - 2);
  EXPECT_EQ(completion_error(graph, {{"I", 3}, {"H", 4}}),
            "slice 0:H of [I]: 0:4 is out of range, the end is 3");
  EXPECT_EQ(completion_error(graph, {{"I", 3}, {"H", 1}}),
            "index H - 2 of [I]: `H - 2` is negative with H = 1: -1");
}

TEST(CompleteBindings, ChecksShapes) {
  EXPECT_EQ(completion_error(elman(), {{"I", 0}}), "input `x` [I]: `I` is 0, dims start at 1");
  EXPECT_EQ(completion_error(elman(), {{"I", -2}}),
            "input `x` [I]: `I` is negative with I = -2: -2");
  EXPECT_EQ(completion_error(elman(), {{"I", 0}, {"H", int64_t{1} << 40}}),
            "input `x` [I]: `I` is 0, dims start at 1\n"
            "param `W` [H, I]: `H` is too large with H = 1099511627776: 1099511627776 is above "
            "2147483647");
  EXPECT_EQ(completion_error(elman(), {{"I", 2147483647}, {"H", 2147483647}}),
            "param `W` [H, I]: too many elements");
  Graph graph = elman();
  graph.params.push_back({"V", Type{{*Dim::divide(kH, 2)}}, {}});
  EXPECT_EQ(completion_error(graph, {{"I", 3}, {"H", 5}}),
            "param `V` [H / 2]: `H / 2` is not a whole number with H = 5: 5 / 2 leaves 1");
  graph = elman();
  graph.nodes[2].type.shape[0] = kH - 9;
  EXPECT_EQ(completion_error(graph, {{"I", 3}, {"H", 5}}),
            "result of `matmul` [H - 9]: `H - 9` is negative with H = 5: -4");
}

}  // namespace
}  // namespace rnnc
