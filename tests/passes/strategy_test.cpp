// Strategies that are asked for: plans that have them, and why others cannot.
#include "passes/options/strategy.h"

#include <gtest/gtest.h>

#include "passes/build_plan.h"
#include "passes/tile/recurrence_tiles.h"
#include "tests/passes/cases.h"
#include "tests/support/cells/networks.h"

namespace rnnc::test {
namespace {

Result<Plan> plan_of(const Graph& graph, Strategy strategy, PlanOptions options = {}) {
  options.max_steps = 100;
  options.machine = h200_machine();
  options.strategy = strategy;
  return build_plan(graph, options);
}

Graph lstm(int64_t size) {
  return tower({"Gated"}, size);
}

/// Of the resident recurrences, "grid, grid"; or the error.
std::string strategies_of(const Result<Plan>& plan) {
  if (!plan) return plan.error().message;
  std::string text;
  for (const Stage& stage : plan->stages) {
    if (!is_resident(stage)) continue;
    const auto& launch = std::get<RecurrenceLaunch>(stage.launches[0]);
    text += fmt::format("{}{}", text.empty() ? "" : ", ", to_string(strategy_of(launch)));
  }
  return text;
}

TEST(Strategies, HaveNames) {
  for (const StrategyInfo& info : all_strategies()) {
    EXPECT_EQ(to_string(info.strategy), info.name);
    EXPECT_EQ(parse_strategy(info.name), info.strategy);
    EXPECT_NE(info.summary, "");
  }
  EXPECT_EQ(all_strategies().size(), 8U);
  EXPECT_EQ(parse_strategy(to_string(Strategy::Any)), Strategy::Any);
  EXPECT_EQ(parse_strategy("grids"), std::nullopt);
}

TEST(Strategies, ArePlannedWhereTheyCanBe) {
  struct Case {
    Strategy strategy;
    std::vector<int64_t> sizes;  // of an LSTM
  };
  for (const auto& [strategy, sizes] :
       {Case{Strategy::Block, {1, 3, 7, 33, 60}}, Case{Strategy::Cluster, {3, 7, 33, 60, 256}},
        Case{Strategy::Grid, {3, 7, 33, 60, 256, 1000}}, Case{Strategy::Hybrid, {1000, 1900}},
        Case{Strategy::SplitK, {1, 3, 7, 33, 60, 256, 1000}}}) {
    for (const int64_t size : sizes) {
      for (const int64_t batch : {1, 5, 16, 64}) {
        for (const DType dtype : {DType::f32, DType::bf16}) {
          SCOPED_TRACE(
              fmt::format("{}, {}x{}, {}", to_string(strategy), batch, size, to_string(dtype)));
          EXPECT_EQ(strategies_of(plan_of(lstm(size), strategy, {.dtype = dtype, .batch = batch})),
                    to_string(strategy));
        }
      }
    }
  }
}

// Every rank of its own is of the strategy, and the best is no better than the best of all.
TEST(Strategies, AreAmongAllTiles) {
  const Graph graph = lstm(60);
  const auto step_of = [&](Strategy strategy, int64_t rank) {
    const Result<Plan> plan = plan_of(graph, strategy, {.batch = 4, .tile_rank = rank});
    if (strategy != Strategy::Any) {
      EXPECT_EQ(strategies_of(plan), to_string(strategy)) << rank;
    }
    for (const Stage& stage : plan->stages) {
      if (is_resident(stage)) {
        return std::get<RecurrenceLaunch>(stage.launches[0]).tile.step_seconds;
      }
    }
    return 0.0;
  };
  const double best = step_of(Strategy::Any, 0);
  double least = 1;
  for (const Strategy strategy :
       {Strategy::Block, Strategy::Cluster, Strategy::Grid, Strategy::SplitK}) {
    least = std::min(least, step_of(strategy, 0));
    for (const int64_t rank : {1, 4, 11}) EXPECT_GE(step_of(strategy, rank), best);
  }
  EXPECT_EQ(least, best);
}

TEST(Strategies, OfBlockDiagonalWeights) {
  const Result<Plan> plan = plan_of(load_case("blocks"), Strategy::Block, {.batch = 3});
  EXPECT_EQ(strategies_of(plan), "block");
}

TEST(Strategies, OfStacks) {
  const Graph graph = tower({"Gated", "Gated", "Gated"}, 64);
  EXPECT_EQ(strategies_of(plan_of(graph, Strategy::Stacked, {.batch = 4})), "stacked");
  EXPECT_EQ(strategies_of(plan_of(graph, Strategy::Grid, {.batch = 4})), "grid, grid, grid");
  EXPECT_EQ(strategies_of(plan_of(graph, Strategy::Cluster, {.batch = 4})),
            "cluster, cluster, cluster");
}

/// The error of a strategy that cannot be.
std::string why(const Graph& graph, Strategy strategy, PlanOptions options = {}) {
  const Result<Plan> plan = plan_of(graph, strategy, std::move(options));
  EXPECT_FALSE(plan.has_value()) << strategies_of(plan);
  return plan ? "" : plan.error().message;
}

TEST(Strategies, SayWhyTheyCannotBe) {
  const PlanOptions bf16 = {.dtype = DType::bf16, .batch = 16};
  const PlanOptions exact = {.batch = 300, .passes = PassSet::all().without(Pass::Split)};
  struct Case {
    Graph graph;
    Strategy strategy;
    PlanOptions options;
    std::string reason;
  };
  const Graph normed = load_case("layer_norm_lstm");
  const std::string wait =
      "its blocks of threads wait for each other however many elements each makes";
  for (const Case& c : {
           Case{lstm(1024), Strategy::Block, bf16,
                "recurrence Gated.0.h, Gated.0.c: a row takes 26 blocks of threads, which wait for "
                "each other, and may take 1"},
           Case{lstm(2048), Strategy::Cluster, bf16,
                "recurrence Gated.0.h, Gated.0.c: it needs 2048 KB of weights on each unit, which "
                "has room for 298"},
           Case{lstm(1), Strategy::Cluster, bf16,
                "recurrence Gated.0.h, Gated.0.c: a block of a cluster makes 2 elements of a row "
                "at least, and has 1; and a cluster has 2 blocks of threads at least, and it has "
                "1"},
           Case{lstm(1), Strategy::Grid, bf16,
                "recurrence Gated.0.h, Gated.0.c: one block of threads makes whole rows, and none "
                "waits for another"},
           Case{lstm(8192), Strategy::Grid, bf16,
                "recurrence Gated.0.h, Gated.0.c: it needs 4096 KB of weights on each unit, which "
                "has room for 330; or it needs 2048 blocks of threads at the same time, and NVIDIA "
                "H200 has room for 132"},
           Case{lstm(1), Strategy::Hybrid, bf16,
                "recurrence Gated.0.h, Gated.0.c: all its weights find room on the chip"},
           Case{lstm(64), Strategy::Hybrid, exact,
                "recurrence Gated.0.h, Gated.0.c: without tensor cores weights are loaded for 2 "
                "rows at most, and there are 17"},
           Case{normed, Strategy::Block, {.batch = 3}, "recurrence h, c: " + wait},
           Case{normed,
                Strategy::Cluster,
                {.batch = 3},
                "recurrence h, c: clusters exchange whole vectors that products read, and nothing "
                "else"},
           Case{lstm(64),
                Strategy::Stacked,
                {},
                "no recurrence of it reads another by products alone, at the same step"},
           Case{tower({"Gated", "Gated"}, 1900), Strategy::Stacked, bf16,
                "Gated.0.h, Gated.0.c, Gated.1.h, Gated.1.c: it needs 476 blocks of threads at the "
                "same time, and NVIDIA H200 has room for 132; or it needs 960 KB of weights on "
                "each unit, which has room for 258"},
           Case{network("Mixed", 8), Strategy::Block, {}, "recurrence Normed.0.h: " + wait},
           Case{tower({"Elementwise"}, 8),
                Strategy::Grid,
                {},
                "no recurrence of it is of class block or dense"},
       }) {
    EXPECT_EQ(why(c.graph, c.strategy, c.options),
              fmt::format("`{}` at batch {} cannot run with strategy `{}`: {} (leave the strategy "
                          "out, and rnnc finds a way)",
                          c.graph.name, c.options.batch, to_string(c.strategy), c.reason));
  }
}

TEST(Strategies, NeedPassesAndAGpu) {
  EXPECT_EQ(why(lstm(64), Strategy::Grid, {.passes = PassSet::all().without(Pass::Resident)}),
            "strategy `grid` needs the pass `resident`");
  EXPECT_EQ(why(tower({"Gated", "Gated"}, 64), Strategy::Stacked,
                {.passes = PassSet::all().without(Pass::Stack)}),
            "strategy `stacked` needs the pass `stack`");
  const Result<Plan> cpu =
      build_plan(lstm(8), {.machine = cpu_machine(2), .strategy = Strategy::Cluster});
  ASSERT_FALSE(cpu.has_value());
  EXPECT_EQ(cpu.error().message, "strategy `cluster` is for a GPU");
  Machine machine = h200_machine();
  machine.cluster_units = 0;
  const Result<Plan> old = build_plan(lstm(8), {.machine = machine, .strategy = Strategy::Cluster});
  ASSERT_FALSE(old.has_value());
  EXPECT_EQ(old.error().message,
            "`Tower` at batch 1 cannot run with strategy `cluster`: recurrence Gated.0.h, "
            "Gated.0.c: NVIDIA H200 has no clusters of blocks (leave the strategy out, and rnnc "
            "finds a way)");
}

}  // namespace
}  // namespace rnnc::test
