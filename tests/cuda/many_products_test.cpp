// Cells with more products in a step than a launch has room for. What they compute is as in any
// other plan.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/cuda/cuda_code.h"
#include "ir/base/launch_limits.h"
#include "ir/graph/text.h"
#include "passes/build_plan.h"
#include "passes/graph/pipeline.h"

namespace rnnc::test {
namespace {

/// Of each of so many states the next value is tanh(W h) of the state after it. With one state: of
/// so many products the sum of all tanh(W h).
Graph with_products(int count, int states) {
  std::string declarations;
  std::string nodes = "%0 = const 0 : []\n";
  std::string results;
  int last = 0;
  const auto add = [&](const std::string& node) {
    nodes += fmt::format("%{} = {} : [4]\n", ++last, node);
    return last;
  };
  for (int i = 0; i < states; ++i) declarations += fmt::format("state h{}: [4]\n", i);
  for (int i = 0; i < states; ++i) add(fmt::format("state h{} @ 1", i));
  int sum = 0;
  for (int i = 0; i < count; ++i) {
    declarations += fmt::format("param W{}: [4, 4]\n", i);
    nodes += fmt::format("%{} = param W{} : [4, 4]\n", ++last, i);
    const int product = add(fmt::format("matmul %{}, %{}", last, 1 + (i + 1) % states));
    const int value = add(fmt::format("tanh %{}", product));
    sum = i == 0 ? value : add(fmt::format("add %{}, %{}", sum, value));
    if (states > 1) results += fmt::format("init h{} = %0\nnext h{} = %{}\n", i, i, value);
  }
  if (states == 1) results += fmt::format("init h0 = %0\nnext h0 = %{}\n", sum);
  Result<Graph> graph = parse_graph(
      fmt::format("graph G() {{\n{}{}{}output y = %{}\n}}", declarations, nodes, results, sum));
  RNNC_CHECK(graph.has_value(), "{}", graph.error().message);
  graph->bind({});
  return *std::move(graph);
}

struct Count {
  int64_t launches = 0;
  int64_t results = 0;  // the most of a launch
  int64_t arrays = 0;
};

Count fused_launches(const Plan& plan) {
  Count count;
  for (const Stage& stage : plan.stages) {
    for (const Launch& launch : stage.launches) {
      const auto* fused = std::get_if<FusedLaunch>(&launch);
      if (fused == nullptr) continue;
      ++count.launches;
      const auto& arguments = plan.kernels[fused->kernel].arguments;
      const int64_t results = std::ranges::count_if(arguments, &Kernel::Argument::product);
      const int64_t operands = 2 * std::ssize(fused->products);
      count.results = std::max(count.results, results);
      count.arrays = std::max(count.arrays, std::ssize(arguments) - results + operands);
    }
  }
  return count;
}

struct ManyCase {
  std::string name;
  int products = 0;
  int states = 0;
  int64_t fused = 0;  // products in the launch
};

class CudaManyProducts : public testing::TestWithParam<ManyCase> {};

TEST_P(CudaManyProducts, StayOutsideWhatIsFull) {
  Graph graph = with_products(GetParam().products, GetParam().states);
  ASSERT_TRUE(run_pipeline(graph).has_value());
  for (const int64_t batch : {4, 100}) {
    const Result<Plan> plan = build_plan(graph, {.batch = batch, .max_steps = 8});
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    const Count count = fused_launches(*plan);
    EXPECT_EQ(count.launches, GetParam().fused > 0 ? 1 : 0);
    EXPECT_EQ(count.results, GetParam().fused);
    EXPECT_LE(count.arrays, kMostArrays);
    const Result<std::string> source = emit_cuda(*plan);
    EXPECT_TRUE(source.has_value()) << source.error().message;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaManyProducts,
                         testing::Values(ManyCase{"OfOneState", 300, 1, kMostResults},
                                         ManyCase{"OfManyStates", 100, 100, 100},
                                         ManyCase{"OfTooManyStates", 300, 300, 0}),
                         [](const auto& made) { return made.param.name; });

}  // namespace
}  // namespace rnnc::test
