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
