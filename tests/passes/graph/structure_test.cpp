#include "passes/graph/structure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/graph/sweeps.h"
#include "ir/graph/text.h"
#include "ir/graph/verify.h"
#include "passes/graph/pipeline.h"
#include "tests/passes/cases.h"
#include "tests/passes/graph/pass_check.h"

namespace rnnc::test {
namespace {

/// A graph of these nodes over inputs x: [8], s: [] and params W: [8, 8], V: [4, 8], b: [8].
std::string body(const std::string& nodes) {
  return R"(graph G() {
    input x: [8]
    input s: []
    param W: [8, 8]
    param V: [4, 8]
    param b: [8]
)" + nodes +
         "}";
}

/// What the pass makes of these nodes, with the numbers unchanged.
void expect_structure(const std::string& before, const std::string& expected) {
  EXPECT_EQ(after(run_structure, body(before)), normal(body(expected)));
  Graph graph = graph_from(body(before));
  run_structure(graph);
  expect_same_results(graph_from(body(before)), graph, 1);
}

void expect_unchanged(const std::string& nodes) {
  Graph graph = graph_from(body(nodes));
  EXPECT_FALSE(run_structure(graph));
  EXPECT_EQ(to_string(graph), normal(body(nodes)));
}

TEST(Structure, SlicesOfSlicesAndWholeSlices) {
  expect_structure(R"(
    %0 = input x : [8]
    %1 = slice %0 from 2 to 8 : [6]
    %2 = slice %1 from 1 to 3 : [2]
    %3 = index %1 at 5 : []
    %4 = slice %0 from 0 to 8 : [8]
    output a = %2
    output b = %3
    output c = %4
  )",
                   R"(
    %0 = input x : [8]
    %1 = slice %0 from 3 to 5 : [2]
    %2 = index %0 at 7 : []
    output a = %1
    output b = %2
    output c = %0
  )");
}

TEST(Structure, GatesCutOutOfOneProductAreCutBeforeTheirFunctions) {
  expect_structure(R"(
    %0 = input x : [8]
    %1 = param W : [8, 8]
    %2 = matmul %1, %0 : [8]
    %3 = param b : [8]
    %4 = add %2, %3 : [8]
    %5 = sigmoid %4 : [8]
    %6 = slice %5 from 0 to 4 : [4]
    %7 = slice %5 from 4 to 8 : [4]
    %8 = mul %6, %7 : [4]
    output y = %8
  )",
                   R"(
    %0 = input x : [8]
    %1 = param W : [8, 8]
    %2 = slice %1 from 0 to 4 : [4, 8]
    %3 = matmul %2, %0 : [4]
    %4 = slice %1 from 4 to 8 : [4, 8]
    %5 = matmul %4, %0 : [4]
    %6 = param b : [8]
    %7 = slice %6 from 0 to 4 : [4]
    %8 = add %3, %7 : [4]
    %9 = slice %6 from 4 to 8 : [4]
    %10 = add %5, %9 : [4]
    %11 = sigmoid %8 : [4]
    %12 = sigmoid %10 : [4]
    %13 = mul %11, %12 : [4]
    output y = %13
  )");
}

TEST(Structure, ScalarsPassACutWhole) {
  expect_structure(R"(
    %0 = input x : [8]
    %1 = input s : []
    %2 = mul %0, %1 : [8]
    %3 = index %2 at 1 : []
    output y = %3
  )",
                   R"(
    %0 = input x : [8]
    %1 = input s : []
    %2 = index %0 at 1 : []
    %3 = mul %2, %1 : []
    output y = %3
  )");
}

TEST(Structure, ValuesReadWholeOrInOverlappingPiecesAreComputedOnce) {
  expect_unchanged(R"(
    %0 = input x : [8]
    %1 = tanh %0 : [8]
    %2 = slice %1 from 0 to 4 : [4]
    output y = %2
    output z = %1
  )");
  expect_unchanged(R"(
    %0 = input x : [8]
    %1 = tanh %0 : [8]
    %2 = slice %1 from 0 to 4 : [4]
    %3 = slice %1 from 3 to 7 : [4]
    %4 = add %2, %3 : [4]
    output y = %4
  )");
  expect_unchanged(R"(
    %0 = input x : [8]
    %1 = tanh %0 : [8]
    %2 = slice %1 from 0 to 4 : [4]
    %3 = sum %1 : []
    %4 = add %2, %3 : [4]
    output y = %4
  )");
}

TEST(Structure, PiecesOfJoinsComeFromTheirSources) {
  expect_structure(R"(
    %0 = input x : [8]
    %1 = param b : [8]
    %2 = concat %0, %1 : [16]
    %3 = slice %2 from 9 to 12 : [3]
    %4 = index %2 at 7 : []
    %5 = stack %0, %1 : [2, 8]
    %6 = index %5 at 1 : [8]
    %7 = slice %2 from 4 to 12 : [8]
    output a = %3
    output b = %4
    output c = %6
    output d = %7
  )",
                   R"(
    %0 = input x : [8]
    %1 = param b : [8]
    %2 = concat %0, %1 : [16]
    %3 = slice %1 from 1 to 4 : [3]
    %4 = index %0 at 7 : []
    %5 = slice %2 from 4 to 12 : [8]
    output a = %3
    output b = %4
    output c = %1
    output d = %5
  )");
}

TEST(Structure, JoinsOfNeighboursAreWhatTheyWereCutFrom) {
  expect_structure(R"(
    %0 = input x : [8]
    %1 = slice %0 from 0 to 3 : [3]
    %2 = slice %0 from 3 to 8 : [5]
    %3 = concat %1, %2 : [8]
    %4 = slice %0 from 4 to 8 : [4]
    %5 = concat %4, %1, %2 : [12]
    %6 = concat %5 : [12]
    output a = %3
    output b = %6
  )",
                   R"(
    %0 = input x : [8]
    %1 = slice %0 from 4 to 8 : [4]
    %2 = concat %1, %0 : [12]
    output a = %0
    output b = %2
  )");
  expect_structure(R"(
    %0 = param V : [4, 8]
    %1 = index %0 at 1 : [8]
    %2 = index %0 at 2 : [8]
    %3 = stack %1, %2 : [2, 8]
    %4 = input x : [8]
    %5 = matmul %3, %4 : [2]
    output y = %5
  )",
                   R"(
    %0 = param V : [4, 8]
    %1 = slice %0 from 1 to 3 : [2, 8]
    %2 = input x : [8]
    %3 = matmul %1, %2 : [2]
    output y = %3
  )");
}

TEST(Structure, AProductWithJoinedWeightsIsOneForEach) {
  expect_structure(R"(
    %0 = input x : [8]
    %1 = param W : [8, 8]
    %2 = param V : [4, 8]
    %3 = concat %1, %2 : [12, 8]
    %4 = matmul %3, %0 : [12]
    %5 = tanh %4 : [12]
    %6 = slice %5 from 0 to 8 : [8]
    %7 = slice %5 from 8 to 12 : [4]
    output y = %6
    output z = %7
  )",
                   R"(
    %0 = input x : [8]
    %1 = param W : [8, 8]
    %2 = param V : [4, 8]
    %3 = matmul %1, %0 : [8]
    %4 = matmul %2, %0 : [4]
    %5 = tanh %3 : [8]
    %6 = tanh %4 : [4]
    output y = %5
    output z = %6
  )");
  // Not if a piece needs both.
  expect_unchanged(R"(
    %0 = input x : [8]
    %1 = param W : [8, 8]
    %2 = param V : [4, 8]
    %3 = concat %1, %2 : [12, 8]
    %4 = matmul %3, %0 : [12]
    %5 = slice %4 from 6 to 10 : [4]
    output y = %5
  )");
}

TEST(Structure, TransposesBesideVectorsAndTwice) {
  expect_structure(R"(
    %0 = input x : [8]
    %1 = param W : [8, 8]
    %2 = transpose %1 : [8, 8]
    %3 = transpose %2 : [8, 8]
    %4 = sub %1, %3 : [8, 8]
    %5 = matmul %4, %0 : [8]
    %6 = matmul %2, %5 : [8]
    %7 = param V : [4, 8]
    %8 = transpose %7 : [8, 4]
    %9 = matmul %6, %8 : [4]
    %10 = eye : [8, 8]
    %11 = transpose %10 : [8, 8]
    %12 = matmul %11, %0 : [8]
    output y = %9
    output z = %12
  )",
                   R"(
    %0 = input x : [8]
    %1 = param W : [8, 8]
    %2 = sub %1, %1 : [8, 8]
    %3 = matmul %2, %0 : [8]
    %4 = matmul %3, %1 : [8]
    %5 = param V : [4, 8]
    %6 = matmul %5, %4 : [4]
    %7 = eye : [8, 8]
    %8 = matmul %7, %0 : [8]
    output y = %6
    output z = %8
  )");
}

TEST(Structure, ScalarsSpreadByThemselves) {
  expect_structure(R"(
    %0 = input x : [8]
    %1 = input s : []
    %2 = broadcast %1 : [8]
    %3 = mul %0, %2 : [8]
    %4 = const 1 : []
    %5 = broadcast %4 : [8]
    %6 = add %2, %5 : [8]
    %7 = slice %6 from 0 to 4 : [4]
    %8 = index %6 at 7 : []
    output a = %3
    output b = %7
    output c = %8
  )",
                   R"(
    %0 = input x : [8]
    %1 = input s : []
    %2 = mul %0, %1 : [8]
    %3 = const 1 : []
    %4 = add %1, %3 : []
    %5 = broadcast %4 : [4]
    %6 = add %1, %3 : []
    output a = %2
    output b = %5
    output c = %6
  )");
}

TEST(Structure, ReversesEndWhereTheyMeet) {
  // What two bidirectional layers have between them.
  const std::string before = R"(
    %0 = input x : [8]
    %1 = tanh %0 : [8]
    %2 = reverse %1 : [8]
    %3 = param W : [8, 8]
    %4 = matmul %3, %2 : [8]
    %5 = reverse %4 : [8]
    %6 = concat %1, %5 : [16]
    %7 = reverse %6 : [16]
    %8 = sum %7 : []
    %9 = reverse %8 : []
    output y = %9
  )";
  EXPECT_EQ(find_sweeps(graph_from(body(before)))->back(), 4u);
  const std::string expected = R"(
    %0 = input x : [8]
    %1 = tanh %0 : [8]
    %2 = reverse %1 : [8]
    %3 = param W : [8, 8]
    %4 = matmul %3, %2 : [8]
    %5 = concat %2, %4 : [16]
    %6 = sum %5 : []
    %7 = reverse %6 : []
    output y = %7
  )";
  expect_structure(before, expected);
  EXPECT_EQ(find_sweeps(graph_from(body(expected)))->back(), 2u);
}

TEST(Structure, AReverseGoesThroughWhatIsComputedElementByElement) {
  expect_structure(R"(
    %0 = input x : [8]
    %1 = param b : [8]
    %2 = mul %0, %1 : [8]
    %3 = reverse %2 : [8]
    %4 = sum %3 : []
    %5 = sub %3, %4 : [8]
    %6 = reverse %5 : [8]
    %7 = mul %6, %1 : [8]
    %8 = concat %7, %0 : [16]
    %9 = reverse %8 : [16]
    %10 = sum %9 : []
    %11 = reverse %10 : []
    output y = %11
  )",
                   R"(
    %0 = input x : [8]
    %1 = reverse %0 : [8]
    %2 = param b : [8]
    %3 = mul %0, %2 : [8]
    %4 = reverse %3 : [8]
    %5 = sum %4 : []
    %6 = sub %4, %5 : [8]
    %7 = mul %6, %2 : [8]
    %8 = concat %7, %1 : [16]
    %9 = sum %8 : []
    %10 = reverse %9 : []
    output y = %10
  )");
}

TEST(Structure, InvariantsHaveNoDirection) {
  expect_structure(R"(
    %0 = param b : [8]
    %1 = tanh %0 : [8]
    %2 = reverse %1 : [8]
    output y = %2
  )",
                   R"(
    %0 = param b : [8]
    %1 = tanh %0 : [8]
    output y = %1
  )");
}

TEST(Structure, StateArraysAreReadElementByElement) {
  EXPECT_EQ(after(run_structure, R"(graph G() {
    input x: [3]
    state s: [2, 3]
    %0 = const 0 : []
    %1 = input x : [3]
    %2 = reset : []
    %3 = state s @ 1 : [2, 3]
    %4 = where %2, %0, %3 : [2, 3]
    %5 = index %4 at 0 : [3]
    %6 = index %4 at 1 : [3]
    %7 = add %5, %1 : [3]
    %8 = add %6, %5 : [3]
    %9 = stack %7, %8 : [2, 3]
    %10 = index %9 at 1 : [3]
    init s = %0
    next s = %9
    output y = %10
  })"),
            normal(R"(graph G() {
    input x: [3]
    state s: [2, 3]
    %0 = const 0 : []
    %1 = input x : [3]
    %2 = reset : []
    %3 = state s @ 1 : [2, 3]
    %4 = index %3 at 0 : [3]
    %5 = where %2, %0, %4 : [3]
    %6 = index %3 at 1 : [3]
    %7 = where %2, %0, %6 : [3]
    %8 = add %5, %1 : [3]
    %9 = add %7, %5 : [3]
    %10 = stack %8, %9 : [2, 3]
    init s = %0
    next s = %10
    output y = %9
  })"));
}

/// A graph of moves and little else, both ways over time.
class Moves {
 public:
  explicit Moves(uint64_t seed) : random_(seed) {
    graph_.name = "Moves";
    graph_.inputs = {{"x", {{4}}, {}}, {"s", {}, {}}};
    graph_.params = {{"W", {{4, 4}}, {}}, {"b", {{4}}, {}}};
    graph_.states = {{"h", {{4}}, kNoNode, kNoNode, {}}};
    for (NodeId id : {graph_.input(0), graph_.input(1), graph_.param(0), graph_.param(1),
                      graph_.state(0), graph_.constant(0.5)}) {
      values_.push_back(id);
    }
  }

  Graph run() {
    for (int i = 0; i < 40; ++i) add(step());
    graph_.states[0].init = 5;
    graph_.states[0].next = 4;
    // Outputs of few values, so that others are read in pieces alone.
    for (int i = 0; i < 4; ++i) {
      const NodeId value = values_[values_.size() - 1 - static_cast<size_t>(i)];
      const bool back = find_directions(graph_)[value] == Direction::Reversed;
      graph_.outputs.push_back(
          {fmt::format("y{}", i), back ? graph_.apply(Op::Reverse, {value}) : value, {}});
    }
    return graph_;
  }

 private:
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound));
  }

  NodeId pick() {
    return values_[static_cast<size_t>(below(static_cast<int64_t>(values_.size())))];
  }
  size_t rank(NodeId id) const { return graph_[id].type.rank(); }
  int64_t size(NodeId id) const { return *graph_[id].type.shape[0].constant(); }

  /// Of small values only, none of which mix directions.
  void add(NodeId id) {
    if (id == kNoNode) return;
    if (find_directions(graph_)[id] == Direction::Mixed) return graph_.nodes.pop_back();
    if (element_count(graph_[id].type.shape) <= 32 && rank(id) <= 2) values_.push_back(id);
  }

  NodeId step() {
    const NodeId a = pick();
    const NodeId b = pick();
    switch (below(9)) {
      case 0:
        return graph_.apply(Op::Reverse, {a});
      case 1:
        return rank(a) == 0 ? graph_.broadcast(a, {3}) : graph_.index(a, below(size(a)));
      case 2:
      case 3: {
        if (rank(a) == 0) return kNoNode;
        const int64_t begin = below(size(a));
        return graph_.slice(a, begin, begin + 1 + below(size(a) - begin));
      }
      case 4:
        return rank(a) == 2 ? graph_.apply(Op::Transpose, {a}) : kNoNode;
      case 5:
        return graph_.apply(Op::Tanh, {a});
      default: {
        const Op ops[] = {Op::Concat, Op::Stack, Op::Add, Op::MatMul};
        const Op op = ops[below(4)];
        if (!infer_type(op, {graph_[a].type, graph_[b].type})) return kNoNode;
        return graph_.apply(op, {a, b});
      }
    }
  }

  std::mt19937_64 random_;
  Graph graph_;
  std::vector<NodeId> values_;
};

uint32_t last_sweep(const Graph& graph) {
  return std::ranges::max(*find_sweeps(graph));
}

TEST(Structure, ChangesNothingThatIsComputed) {
  size_t changed = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    const Graph before = Moves(seed).run();
    const Status valid = verify(before);
    ASSERT_TRUE(valid) << valid.error().message;
    Graph graph = before;
    if (run_structure(graph)) ++changed;
    const Status status = verify(graph);
    ASSERT_TRUE(status) << status.error().message;
    expect_same_results(before, graph, seed);
    EXPECT_LE(last_sweep(graph), last_sweep(before));
    ASSERT_FALSE(run_structure(graph));
    ASSERT_TRUE(run_pipeline(graph));
    expect_same_results(before, graph, seed);
    const std::string once = to_string(graph);
    ASSERT_TRUE(run_pipeline(graph));
    EXPECT_EQ(to_string(graph), once);
  }
  EXPECT_GT(changed, 400u);
}

}  // namespace
}  // namespace rnnc::test
