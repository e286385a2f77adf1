#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "ir/graph/text.h"
#include "ir/graph/verify.h"
#include "passes/graph/common_subexpressions.h"
#include "passes/graph/constant_folding.h"
#include "passes/graph/dead_code.h"
#include "passes/graph/dot_products.h"
#include "passes/graph/identities.h"
#include "passes/graph/pipeline.h"
#include "passes/graph/structure.h"
#include "tests/passes/cases.h"
#include "tests/passes/graph/pass_check.h"

namespace rnnc::test {
namespace {

/// The constant that `op` on these becomes; nothing if it stays.
std::optional<double> folded(Op op, std::vector<double> values) {
  Graph graph;
  std::vector<NodeId> operands;
  for (double value : values) operands.push_back(graph.constant(value));
  graph.outputs.push_back({"y", graph.apply(op, operands), {}});
  run_constant_folding(graph);
  const Node& node = graph.nodes.back();
  return node.op == Op::Constant ? std::optional(node.value) : std::nullopt;
}

TEST(ConstantFolding, KeepsNanInfinityAndZeroOfEveryOpInEveryType) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double values[] = {std::nan(""), infinity, -infinity, 0.0,      -0.0,  1.0,
                           -1.0,         0.5,      3.0,       100.0,    1e300, -1e300,
                           1e38,         1e-300,   -1e-300,   1 - 1e-9, 1e-40};
  const auto kind = [](float value) {
    return std::pair(std::fpclassify(value) == FP_SUBNORMAL ? FP_NORMAL : std::fpclassify(value),
                     std::isinf(value) && value < 0);
  };
  size_t kept = 0;
  const auto check = [&](Op op, const std::vector<double>& operands, double a, double b, double c) {
    const std::optional<double> value = folded(op, operands);
    if (!value) return;
    ++kept;
    const auto f = [](double x) { return static_cast<double>(static_cast<float>(x)); };
    const double wide = evaluate(op, a, b, c);
    EXPECT_TRUE(std::isnan(wide)
                    ? std::isnan(*value)
                    : std::bit_cast<uint64_t>(wide) == std::bit_cast<uint64_t>(*value));
    const auto narrow = static_cast<float>(evaluate(op, f(a), f(b), f(c)));
    EXPECT_EQ(kind(static_cast<float>(*value)), kind(narrow)) << fmt::format(
        "{} of {}: {} and {}", info(op).name, fmt::join(operands, ", "), *value, narrow);
  };
  for (const OpInfo& op : all_ops()) {
    if (!op.scalar) continue;
    kept = 0;
    for (double a : values) {
      for (double b : values) {
        if (op.arity == 1) check(op.op, {a}, a, b, b);
        if (op.arity == 2) check(op.op, {a, b}, a, b, b);
        for (double c : values) {
          if (op.arity == 3) check(op.op, {a, b, c}, a, b, c);
        }
      }
    }
    EXPECT_GT(kept, 5U) << op.name;
  }
}

TEST(ConstantFolding, LeavesWhatTypesDoNotAgreeOn) {
  EXPECT_EQ(folded(Op::Div, {1e300, 1e200}), std::nullopt);    // inf / inf in f32
  EXPECT_EQ(folded(Op::Exp, {100}), std::nullopt);             // inf in f32
  EXPECT_EQ(folded(Op::Log, {1e-300}), std::nullopt);          // log(0) in f32
  EXPECT_EQ(folded(Op::Log, {0.999999999}), std::nullopt);     // log(1) in f32
  EXPECT_EQ(folded(Op::Lt, {1e300, 2e300}), std::nullopt);     // inf < inf in f32
  EXPECT_EQ(folded(Op::Sqrt, {-1e-300}), std::nullopt);        // sqrt(-0) in f32
  EXPECT_EQ(folded(Op::Sub, {1e10 + 1, 1e10}), std::nullopt);  // 0 in f32
  EXPECT_EQ(folded(Op::Div, {1, 3}), 1.0 / 3);
}

TEST(EveryPass, ChangesNothingThatIsComputed) {
  struct {
    const char* name;
    bool (*run)(Graph&);
  } const passes[] = {{"dead_code", run_dead_code},
                      {"dot_products", run_dot_products},
                      {"constant_folding", run_constant_folding},
                      {"common_subexpressions", run_common_subexpressions},
                      {"identities", run_identities},
                      {"structure", run_structure}};
  for (const auto& pass : passes) {
    size_t changed = 0;
    for (uint64_t seed = 0; seed < 150; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", pass.name, seed));
      const Graph before = any_random_graph(seed);
      Graph graph = before;
      if (pass.run(graph)) ++changed;
      const Status status = verify(graph);
      ASSERT_TRUE(status) << status.error().message;
      expect_same_results(before, graph, seed);
    }
    EXPECT_GT(changed, 5u) << pass.name;
  }
}

TEST(Pipeline, ChangesNothingThatIsComputed) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const Graph before = any_random_graph(seed);
    Graph graph = before;
    const Status status = run_pipeline(graph);
    ASSERT_TRUE(status) << status.error().message;
    expect_same_results(before, graph, seed);
  }
}

TEST(Pipeline, EverySubsetChangesNothingThatIsComputed) {
  constexpr Pass kGraphPasses[] = {Pass::Simplify, Pass::Fold, Pass::Cse, Pass::DeadCode};
  for (uint64_t seed = 0; seed < 160; ++seed) {
    PassSet passes = PassSet::none();
    for (size_t i = 0; i < 4; ++i) {
      if ((seed >> i & 1U) != 0) passes = passes.with(kGraphPasses[i]);
    }
    SCOPED_TRACE(fmt::format("seed {}, passes {}", seed, passes.to_string()));
    const Graph before = any_random_graph(seed);
    Graph graph = before;
    const Status status = run_pipeline(graph, {.passes = passes});
    ASSERT_TRUE(status) << status.error().message;
    expect_same_results(before, graph, seed);
  }
}

TEST(Pipeline, TellsItsObserverOfEachStep) {
  std::vector<std::string> names;
  PassObserver observer;
  observer.after = [&](std::string_view name, double seconds, const Graph* graph,
                       const Plan* plan) {
    names.emplace_back(name);
    EXPECT_GE(seconds, 0);
    EXPECT_TRUE(graph != nullptr && verify(*graph));
    EXPECT_EQ(plan, nullptr);
  };
  Graph graph = any_random_graph(1);
  ASSERT_TRUE(run_pipeline(
      graph, {.passes = PassSet::none(), .lengths = true, .resets = true, .observer = observer}));
  EXPECT_EQ(fmt::format("{}", fmt::join(names, " ")),
            "stop-gradients dead-code delays resets lengths dot-products");

  names.clear();
  graph = graph_from(R"(graph G() {
    %0 = const 1 : []
    %1 = add %0, %0 : []
    output y = %1
  })");
  ASSERT_TRUE(
      run_pipeline(graph, {.passes = PassSet::all().without(Pass::Cse), .observer = observer}));
  EXPECT_EQ(fmt::format("{}", fmt::join(names, " ")),
            "stop-gradients dead-code delays dot-products simplify fold dead-code hoist simplify "
            "fold dead-code hoist");
}

TEST(Pipeline, IsIdempotent) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph = any_random_graph(seed);
    ASSERT_TRUE(run_pipeline(graph));
    const std::string once = to_string(graph);
    ASSERT_TRUE(run_pipeline(graph));
    EXPECT_EQ(to_string(graph), once);
  }
}

}  // namespace
}  // namespace rnnc::test
