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

TEST(DeadCode, KeepsWhatOutputsAndStatesNeed) {
  EXPECT_EQ(after(run_dead_code, R"(graph G() {
    input x: [3]
    input unused: [3]
    state h: [3]
    %0 = input x : [3]
    %1 = tanh %0 : [3]
    %2 = sigmoid %0 : [3]
    %3 = const 1 : []
    %4 = const 2 : []
    %5 = add %1, %3 : [3]
    %6 = add %2, %4 : [3]
    %7 = input unused : [3]
    init h = %4
    next h = %0
    output y = %6
  })"),
            normal(R"(graph G() {
    input x: [3]
    input unused: [3]
    state h: [3]
    %0 = input x : [3]
    %1 = sigmoid %0 : [3]
    %2 = const 2 : []
    %3 = add %1, %2 : [3]
    init h = %2
    next h = %0
    output y = %3
  })"));
}

TEST(CommonSubexpressions, JoinsEqualValuesThroughTheirUsers) {
  EXPECT_EQ(after(run_common_subexpressions, R"(graph G() {
    input x: [3]
    state h: [3]
    %0 = input x : [3]
    %1 = input x : [3]
    %2 = tanh %0 : [3]
    %3 = tanh %1 : [3]
    %4 = sub %2, %3 : [3]
    %5 = sub %3, %2 : [3]
    %6 = const 0 : []
    %7 = const -0 : []
    %8 = const 0 : []
    %9 = div %4, %7 : [3]
    init h = %8
    next h = %5
    output y = %9
  })"),
            normal(R"(graph G() {
    input x: [3]
    state h: [3]
    %0 = input x : [3]
    %1 = input x : [3]
    %2 = tanh %0 : [3]
    %3 = tanh %0 : [3]
    %4 = sub %2, %2 : [3]
    %5 = sub %2, %2 : [3]
    %6 = const 0 : []
    %7 = const -0 : []
    %8 = const 0 : []
    %9 = div %4, %7 : [3]
    init h = %6
    next h = %4
    output y = %9
  })"));
}

TEST(CommonSubexpressions, KeepsOperandOrderDelaysAndDeclarationsApart) {
  Graph graph = graph_from(R"(graph G() {
    input x: [3]
    input y: [3]
    state h: [3]
    %0 = input x : [3]
    %1 = input y : [3]
    %2 = input x @ 1 : [3]
    %3 = state h @ 1 : [3]
    %4 = state h @ 2 : [3]
    %5 = sub %0, %1 : [3]
    %6 = sub %1, %0 : [3]
    %7 = const 0 : []
    %8 = add %5, %6 : [3]
    %9 = add %3, %4 : [3]
    %10 = add %8, %9 : [3]
    %11 = add %10, %2 : [3]
    init h = %7
    next h = %11
    output y1 = %11
  })");
  EXPECT_FALSE(run_common_subexpressions(graph));
}

TEST(CommonSubexpressions, KeepsWhatOperandsDoNotDecideApart) {
  EXPECT_EQ(after(run_common_subexpressions, R"(graph G() {
    input x: [4]
    %0 = input x : [4]
    %1 = slice %0 from 0 to 2 : [2]
    %2 = slice %0 from 2 to 4 : [2]
    %3 = slice %0 from 2 to 4 : [2]
    %4 = index %0 at 0 : []
    %5 = index %0 at 1 : []
    %6 = index %0 at 1 : []
    %7 = broadcast %4 : [2]
    %8 = broadcast %4 : [3]
    %9 = broadcast %4 : [3]
    %10 = eye : [2, 2]
    %11 = eye : [3, 3]
    %12 = eye : [3, 3]
    %13 = valid : []
    %14 = valid : []
    %15 = valid reversed : []
    %16 = reset : []
    %17 = reset reversed : []
    %18 = concat %1, %3 : [4]
    %19 = stack %1, %3 : [2, 2]
    %20 = vector 1, 2 : [2]
    %21 = vector 1, 3 : [2]
    %22 = vector 1, 2 : [2]
    %23 = range : [2]
    %24 = range : [4]
    %25 = range : [2]
    %26 = concat %20, %21, %22, %23, %25, %24 : [14]
    output a = %18
    output b = %6
    output c = %9
    output d = %12
    output e = %14
    output f = %19
    output g = %26
  })"),
            normal(R"(graph G() {
    input x: [4]
    %0 = input x : [4]
    %1 = slice %0 from 0 to 2 : [2]
    %2 = slice %0 from 2 to 4 : [2]
    %3 = slice %0 from 2 to 4 : [2]
    %4 = index %0 at 0 : []
    %5 = index %0 at 1 : []
    %6 = index %0 at 1 : []
    %7 = broadcast %4 : [2]
    %8 = broadcast %4 : [3]
    %9 = broadcast %4 : [3]
    %10 = eye : [2, 2]
    %11 = eye : [3, 3]
    %12 = eye : [3, 3]
    %13 = valid : []
    %14 = valid : []
    %15 = valid reversed : []
    %16 = reset : []
    %17 = reset reversed : []
    %18 = concat %1, %2 : [4]
    %19 = stack %1, %2 : [2, 2]
    %20 = vector 1, 2 : [2]
    %21 = vector 1, 3 : [2]
    %22 = vector 1, 2 : [2]
    %23 = range : [2]
    %24 = range : [4]
    %25 = range : [2]
    %26 = concat %20, %21, %20, %23, %23, %24 : [14]
    output a = %18
    output b = %5
    output c = %8
    output d = %11
    output e = %13
    output f = %19
    output g = %26
  })"));
}

TEST(CommonSubexpressions, JoinsWhateverTheOrderWhereItDoesNotMatter) {
  EXPECT_EQ(after(run_common_subexpressions, R"(graph G() {
    input x: [3]
    input y: []
    %0 = input x : [3]
    %1 = input y : []
    %2 = add %0, %1 : [3]
    %3 = add %1, %0 : [3]
    %4 = mul %0, %1 : [3]
    %5 = mul %1, %0 : [3]
    %6 = eq %0, %1 : [3]
    %7 = eq %1, %0 : [3]
    %8 = ne %0, %1 : [3]
    %9 = ne %1, %0 : [3]
    %10 = max %0, %1 : [3]
    %11 = max %1, %0 : [3]
    %12 = min %0, %1 : [3]
    %13 = min %1, %0 : [3]
    %14 = concat %3, %5, %7, %9, %10, %11, %12, %13 : [24]
    output z = %14
  })"),
            normal(R"(graph G() {
    input x: [3]
    input y: []
    %0 = input x : [3]
    %1 = input y : []
    %2 = add %0, %1 : [3]
    %3 = add %1, %0 : [3]
    %4 = mul %0, %1 : [3]
    %5 = mul %1, %0 : [3]
    %6 = eq %0, %1 : [3]
    %7 = eq %1, %0 : [3]
    %8 = ne %0, %1 : [3]
    %9 = ne %1, %0 : [3]
    %10 = max %0, %1 : [3]
    %11 = max %1, %0 : [3]
    %12 = min %0, %1 : [3]
    %13 = min %1, %0 : [3]
    %14 = concat %2, %4, %6, %8, %10, %11, %12, %13 : [24]
    output z = %14
  })"));
}

TEST(ConstantFolding, FoldsThroughAndKeepsNanAndInfinity) {
  EXPECT_EQ(after(run_constant_folding, R"(graph G() {
    input x: []
    %0 = const 0 : []
    %1 = const -1 : []
    %2 = div %1, %0 : []
    %3 = log %1 : []
    %4 = const 4 : []
    %5 = sqrt %4 : []
    %6 = add %5, %4 : []
    %7 = input x : []
    %8 = mul %7, %0 : []
    output infinite = %2
    output undefined = %3
    output six = %6
    output product = %8
  })"),
            normal(R"(graph G() {
    input x: []
    %0 = const 0 : []
    %1 = const -1 : []
    %2 = const -inf : []
    %3 = const nan : []
    %4 = const 4 : []
    %5 = const 2 : []
    %6 = const 6 : []
    %7 = input x : []
    %8 = mul %7, %0 : []
    output infinite = %2
    output undefined = %3
    output six = %6
    output product = %8
  })"));
}

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

TEST(ConstantFolding, FollowsFloat32ThroughChains) {
  // 2^24 + 1 - 2^24 is 0 in float32, and its inverse infinite.
  Graph graph = graph_from(R"(graph G() {
    %0 = const 16777216 : []
    %1 = const 1 : []
    %2 = add %0, %1 : []
    %3 = mul %2, %1 : []
    %4 = sub %3, %0 : []
    %5 = div %1, %4 : []
    output y = %5
  })");
  EXPECT_TRUE(run_constant_folding(graph));
  EXPECT_EQ(to_string(graph), normal(R"(graph G() {
    %0 = const 16777216 : []
    %1 = const 1 : []
    %2 = const 16777217 : []
    %3 = const 16777217 : []
    %4 = sub %3, %0 : []
    %5 = div %1, %4 : []
    output y = %5
  })"));
}

TEST(DotProducts, BecomeSums) {
  EXPECT_EQ(after(run_dot_products, R"(graph G() {
    input x: [3]
    param w: [3]
    param W: [2, 3]
    %0 = input x : [3]
    %1 = param w : [3]
    %2 = matmul %1, %0 : []
    %3 = param W : [2, 3]
    %4 = matmul %3, %0 : [2]
    %5 = add %4, %2 : [2]
    output y = %5
  })"),
            normal(R"(graph G() {
    input x: [3]
    param w: [3]
    param W: [2, 3]
    %0 = input x : [3]
    %1 = param w : [3]
    %2 = mul %1, %0 : [3]
    %3 = sum %2 : []
    %4 = param W : [2, 3]
    %5 = matmul %4, %0 : [2]
    %6 = add %5, %3 : [2]
    output y = %6
  })"));
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

TEST(Pipeline, CutsGatesOutOfJoinedProductsWithoutACopy) {
  // An LSTM's first two gates as many write them: one product over joined weights, cut after the
  // functions; with zeros(4) as a bias. What is folded and joined on the way lets more be cut.
  Graph graph = graph_from(R"(graph G() {
    input x: [4]
    param W: [4, 4]
    param V: [4, 4]
    %0 = input x : [4]
    %1 = param W : [4, 4]
    %2 = param V : [4, 4]
    %3 = concat %1, %2 : [8, 4]
    %4 = matmul %3, %0 : [8]
    %5 = const 2 : []
    %6 = const 3 : []
    %7 = broadcast %5 : [8]
    %8 = broadcast %6 : [8]
    %9 = mul %7, %8 : [8]
    %10 = add %4, %9 : [8]
    %11 = sigmoid %10 : [8]
    %12 = sigmoid %10 : [8]
    %13 = slice %11 from 0 to 4 : [4]
    %14 = slice %12 from 4 to 8 : [4]
    %15 = mul %13, %14 : [4]
    output y = %15
  })");
  ASSERT_TRUE(run_pipeline(graph));
  EXPECT_EQ(to_string(graph), normal(R"(graph G() {
    input x: [4]
    param W: [4, 4]
    param V: [4, 4]
    %0 = input x : [4]
    %1 = param W : [4, 4]
    %2 = param V : [4, 4]
    %3 = matmul %1, %0 : [4]
    %4 = matmul %2, %0 : [4]
    %5 = const 6 : []
    %6 = add %3, %5 : [4]
    %7 = add %4, %5 : [4]
    %8 = sigmoid %6 : [4]
    %9 = sigmoid %7 : [4]
    %10 = mul %8, %9 : [4]
    output y = %10
  })"));
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
            "dead-code delays resets lengths dot-products");

  names.clear();
  graph = graph_from(R"(graph G() {
    %0 = const 1 : []
    %1 = add %0, %0 : []
    output y = %1
  })");
  ASSERT_TRUE(
      run_pipeline(graph, {.passes = PassSet::all().without(Pass::Cse), .observer = observer}));
  EXPECT_EQ(fmt::format("{}", fmt::join(names, " ")),
            "dead-code delays dot-products simplify fold dead-code hoist simplify fold dead-code "
            "hoist");
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
