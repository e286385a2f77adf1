#include "passes/persistent/stack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "ir/base/launch_limits.h"
#include "ir/plan/kernel_facts.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/recurrence_sides.h"
#include "passes/build_plan.h"
#include "passes/cost/cost.h"
#include "tests/passes/cases.h"
#include "tests/support/cells/graph_of_text.h"
#include "tests/support/cells/networks.h"

namespace rnnc::test {
namespace {

Plan plan_of(const Graph& graph, PlanOptions options = {}) {
  options.max_steps = 512;
  options.machine = h200_machine();
  Result<Plan> plan = build_plan(graph, options);
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

std::vector<const RecurrenceLaunch*> residents(const Plan& plan) {
  std::vector<const RecurrenceLaunch*> result;
  for (const Stage& stage : plan.stages) {
    if (is_resident(stage)) result.push_back(&std::get<RecurrenceLaunch>(stage.launches[0]));
  }
  return result;
}

/// "3, 1": sides of each resident recurrence.
std::string sides_of(const Plan& plan) {
  std::string text;
  for (const RecurrenceLaunch* launch : residents(plan)) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", launch->tile.sides.size());
  }
  return text;
}

int64_t count_gemms(const Plan& plan) {
  int64_t count = 0;
  for (const Stage& stage : plan.stages) {
    count += std::ranges::count_if(stage.launches, [](const Launch& launch) {
      return std::holds_alternative<GemmLaunch>(launch);
    });
  }
  return count;
}

std::string stacked(const std::vector<std::string>& cells, int64_t size = 160) {
  return sides_of(plan_of(tower(cells, size), {.dtype = DType::bf16, .batch = 4}));
}

TEST(Stack, LayersAreSidesOfOneLaunch) {
  using Cells = std::vector<std::string>;
  EXPECT_EQ(stacked({"Gated"}), "1");
  EXPECT_EQ(stacked({"Gated", "Gated"}), "2");
  EXPECT_EQ(stacked(Cells(8, "Gated")), "8");
  EXPECT_EQ(stacked(Cells(3, "Update")), "3");
  EXPECT_EQ(stacked(Cells(3, "ResetBefore")), "3");
  EXPECT_EQ(stacked(Cells(3, "Projected")), "3");
  EXPECT_EQ(stacked(Cells(3, "Normed")), "3");
  EXPECT_EQ(stacked({"Dense", "Gated", "ResetBefore", "Normed", "Projected", "Update"}), "6");
  EXPECT_EQ(sides_of(plan_of(load_case("stacked_lstm"))), "3");
}

/// From the last to the first, each with one product with its own gates and one with those of the
/// layer above; weight gradients of all come behind.
TEST(Stack, LayersOfABackwardHalf) {
  const Plan plan =
      plan_of(load_backward_half("stacked_lstm", {{"H", 64}}), {.dtype = DType::bf16});
  EXPECT_EQ(sides_of(plan), "3");
  const RecurrenceLaunch& stack = *residents(plan)[0];
  ASSERT_EQ(stack.phases.size(), 6U);
  for (size_t p = 0; p < stack.phases.size(); ++p) {
    SCOPED_TRACE(p);
    EXPECT_EQ(stack.phases[p].products.size(), p == 0 ? 0U : 1U);
    for (const FusedLaunch::Product& product : stack.phases[p].products) {
      EXPECT_EQ(product.k, 4 * 64);
    }
  }
  const auto is_stack = [](const Stage& stage) { return is_resident(stage); };
  const auto at = std::ranges::find_if(plan.stages, is_stack);
  ASSERT_NE(at, plan.stages.end());
  const auto is_total = [](const Launch& launch) {
    return std::holds_alternative<TotalLaunch>(launch);
  };
  EXPECT_EQ(std::ranges::count_if((at + 1)->launches, is_total), 6);  // of x and h; biases add up
}

TEST(Stack, WhatDoesNotDependOnOneAnotherIsSideBySide) {
  // What is on top of both reads what a kernel puts together.
  const Plan plan = plan_of(network("Branches", 64), {.dtype = DType::bf16});
  EXPECT_EQ(sides_of(plan), "2, 1");
  EXPECT_EQ(count_gemms(plan), 2);
  EXPECT_EQ(sides_of(plan_of(network("Both", 64), {.dtype = DType::bf16})), "2, 2");
}

TEST(Stack, LayersThatReadOneAnotherOtherwiseStayApart) {
  // A residual connection, and a layer that keeps no weights on the chip.
  const Plan mixed = plan_of(network("Mixed", 64));
  EXPECT_EQ(sides_of(mixed), "2, 1");
  const Plan residual = plan_of(graph_from(R"(graph Residual() {
    input x: [64]
    param R: [64, 64]
    param W: [64, 64]
    param Q: [64, 64]
    state h: [64]
    state g: [64]
    %0 = input x : [64]
    %1 = param R : [64, 64]
    %2 = state h @ 1 : [64]
    %3 = const 0 : []
    %4 = matmul %1, %2 : [64]
    %5 = add %0, %4 : [64]
    %6 = tanh %5 : [64]
    %7 = add %6, %0 : [64]
    %8 = param W : [64, 64]
    %9 = matmul %8, %7 : [64]
    %10 = param Q : [64, 64]
    %11 = state g @ 1 : [64]
    %12 = matmul %10, %11 : [64]
    %13 = add %9, %12 : [64]
    %14 = tanh %13 : [64]
    %15 = add %14, %6 : [64]
    init h = %3
    next h = %6
    init g = %3
    next g = %14
    output y = %15
  })"));
  EXPECT_NE(sides_of(residual), "");
}

TEST(Stack, OneThatIsTooTallBecomesSeveral) {
  const Plan plan =
      plan_of(tower(std::vector<std::string>(16, "Gated"), 512), {.dtype = DType::bf16});
  EXPECT_EQ(sides_of(plan), "8, 8");
  EXPECT_EQ(count_gemms(plan), 2);
}

TEST(Stack, OneOfTooManyArraysBecomesSeveral) {
  const auto many = [](size_t layers) {
    return plan_of(tower(std::vector<std::string>(layers, "Many"), 8), {.dtype = DType::bf16});
  };
  const Plan plan = many(20);
  EXPECT_EQ(sides_of(plan), "10, 10");
  EXPECT_EQ(plan.note,
            "`Tower` at batch 1 runs its 20 layers in several launches: the kernel of one would "
            "take 1360 arrays, and may take 1000");
  for (const RecurrenceLaunch* launch : residents(plan)) {
    EXPECT_LE(count_arrays(plan, launch->phases, launch->tile.sides.size()), kMostArrays);
  }
  EXPECT_EQ(sides_of(many(14)), "14");
  EXPECT_EQ(many(14).note, "");
}

/// As it is when stacks are made.
Plan plan_before_stacks(const Graph& graph) {
  std::optional<Plan> left;
  PlanOptions options{.dtype = DType::bf16, .batch = 16};
  options.observer.after = [&](std::string_view pass, double, const Graph*, const Plan* plan) {
    if (pass == "resident") left = *plan;
  };
  plan_of(graph, options);
  RNNC_CHECK(left.has_value(), "nothing is resident");
  return *std::move(left);
}

TEST(Stack, IsAsTallAsFitsAndElseThePlanAsItWas) {
  const Plan before = plan_before_stacks(tower(std::vector<std::string>(5, "Gated"), 160));
  const auto sides_on = [&](int units) {
    Plan plan = before;
    Machine machine = h200_machine();
    machine.units = units;
    const Result<bool> made = run_stack(plan, machine);
    EXPECT_EQ(*made, plan != before);
    return sides_of(plan);
  };
  EXPECT_EQ(sides_on(132), "5");
  EXPECT_EQ(sides_on(6), "3, 2");
  EXPECT_EQ(sides_on(4), "2, 2, 1");
  EXPECT_EQ(sides_on(1), "1, 1, 1, 1, 1");
}

TEST(Stack, AllBlocksRunAtOnce) {
  for (const int64_t batch : {1, 16, 40}) {
    const Plan plan = plan_of(tower(std::vector<std::string>(4, "Gated"), 300),
                              {.dtype = DType::bf16, .batch = batch});
    for (const RecurrenceLaunch* launch : residents(plan)) {
      EXPECT_LE(all_blocks(launch->tile), h200_machine().units);
    }
  }
}

/// The upper part of the first Twice reads a vector that is put together by a launch which makes
/// that of the second one, too: so it waits for both, and cannot be on top of the second one.
TEST(Stack, WhatPutsVectorsTogetherForSeveralLayersIsAwaited) {
  const Graph graph = graph_of_text(R"(
cell Twice[H](x: []) -> (h3, h4) {
  state h2, h3, h4: [H]
  param P: [H, 2 * H]
  param Q: [2 * H, H]
  param R: [H, H]
  h2[t] = tanh(P @ (Q @ h3[t-1] + concat(h4[t-1], h4[t-1])))
  h3[t] = h2[t-1]
  h4[t] = tanh(R @ h4[t-1])
}
cell Around[H](x: []) -> (y, g) {
  state h1: []
  state g: [H]
  state k: [2 * H]
  param W: [H, H]
  param U: [2 * H, H]
  param V: [2 * H, 2 * H]
  (v, w) = Twice[H = H](h1[t-1])
  h1[t] = tanh(h1[t-1] + x[t])
  g[t] = tanh(W @ g[t-1])
  k[t] = sigmoid(V @ concat(v, v)) * k[t-1] + U @ (w + w)
  y = h1[t]
}
network Net[H](x: []) -> (a, y) {
  (a, c) = Twice[H = H](x)
  (y, z) = Around[H = H](x)
}
)",
                                    "Net", {{"H", 8}});
  EXPECT_EQ(sides_of(plan_of(graph, {.batch = 3})), "1, 2, 2");
}

TEST(Stack, CanBeSwitchedOff) {
  const Graph graph = tower({"Gated", "Gated"}, 512);
  const auto sides = [&](PassSet passes) { return sides_of(plan_of(graph, {.passes = passes})); };
  EXPECT_EQ(sides(PassSet::all()), "2");
  EXPECT_EQ(sides(PassSet::all().without(Pass::Stack)), "1, 1");
  EXPECT_EQ(sides(PassSet::all().without(Pass::Resident)), "");
  EXPECT_EQ(sides(PassSet::all().without(Pass::Wavefront)), "2");
}

}  // namespace
}  // namespace rnnc::test
