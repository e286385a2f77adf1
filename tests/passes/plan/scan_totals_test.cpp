// Totals that scans add up themselves: what becomes of them, and what they are.
#include "passes/plan/scan_totals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "ir/graph/interpreter.h"
#include "ir/graph/text.h"
#include "ir/plan/plan_parse.h"
#include "ir/plan/scan_exchange.h"
#include "passes/build_plan.h"
#include "passes/gradient/differentiate.h"
#include "passes/graph/pipeline.h"
#include "tests/support/cells/loop_cells.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/gradients/half_check.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

const char* const kCells[] = {"Floor", "Turning", "Weighted", "Biased"};

Plan backward_plan(const std::string& cell, const PlanOptions& options) {
  Graph graph = loop_cell(cell, 8);
  RNNC_CHECK(run_pipeline(graph, {.training = true}).has_value(), "the pipeline refuses");
  const Graph half = differentiate(graph, DifferentiateOptions::all(graph, {})).backward;
  Result<Plan> plan = plan_graph(half, options);
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

Plan backward_scan_plan(const std::string& cell, DType dtype = DType::f32) {
  return backward_plan(cell, {.dtype = dtype,
                              .batch = 3,
                              .max_steps = 600,
                              .chunk = 600,
                              .machine = h200_machine(),
                              .strategy = Strategy::Scan});
}

ScanLaunch& found_scan(Plan& plan) {
  for (Stage& stage : plan.stages) {
    for (Launch& launch : stage.launches) {
      if (auto* const scan = std::get_if<ScanLaunch>(&launch)) return *scan;
    }
  }
  RNNC_CHECK(false, "no scan");
}

/// Totals of rows that are left.
int64_t count_sums(const Plan& plan) {
  int64_t count = 0;
  for (const Stage& stage : plan.stages) {
    for (const Launch& launch : stage.launches) {
      const auto* const total = std::get_if<TotalLaunch>(&launch);
      if (total != nullptr && total->right.buffer == kNoBuffer) ++count;
    }
  }
  return count;
}

TEST(ScanTotals, AreThoseOfTheInterpreter) {
  uint64_t seed = 0;
  for (const char* const cell : kCells) {
    for (const bool cpu : {false, true}) {
      for (const auto& [size, batch, steps, chunk] :
           {std::array<int64_t, 4>{1, 1, 1, 1}, {3, 2, 33, 9}, {7, 3, 40, 100}}) {
        SCOPED_TRACE(fmt::format("{} of {}, B {}, T {}{}", cell, size, batch, steps,
                                 cpu ? " on a CPU" : ""));
        ++seed;
        check_halves(loop_cell(cell, size),
                     {.steps = steps,
                      .batch = batch,
                      .chunk = chunk,
                      .seed = seed,
                      .dtype = cpu ? DType::f64 : DType::f32,
                      .lengths = seed % 2 == 1,
                      .resets = seed % 3 == 1,
                      .given_states = seed % 4 < 2,
                      .machine = cpu ? cpu_machine(2) : h200_machine(),
                      .strategy = Strategy::Scan},
                     execute_plan);
      }
    }
  }
}

/// And not their steps, of which none is left in memory.
TEST(ScanTotals, AreAllThatIsStored) {
  for (const char* const cell : {"Floor", "Turning", "Weighted"}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(fmt::format("{} in {}", cell, to_string(dtype)));
      Plan plan = backward_scan_plan(cell, dtype);
      const ScanLaunch& scan = found_scan(plan);
      EXPECT_GE(scan.totals.size(), 2U);
      EXPECT_EQ(count_sums(plan), 0);
      for (const uint32_t i : scan.totals) {
        EXPECT_EQ(plan.buffers[scan.accesses[i].buffer].extent, Extent::Invariant);
        EXPECT_EQ(plan.buffers[scan.accesses[i].buffer].dtype, DType::f32);
      }
      for (BufferId id = 0; id < plan.buffers.size(); ++id) {
        EXPECT_EQ(plan.buffers[id].extent == Extent::Chunk, id == scan.exchange) << id;
      }
      const int64_t tiles = (600 + scan.tile_steps() - 1) / scan.tile_steps();
      EXPECT_EQ(plan.buffers[scan.partials].width,
                tiles * 3 * std::ssize(scan.totals) * plan.kernels[scan.kernel].length);
    }
  }
}

/// A total of the scan's outputs, and one of what is computed beside an output.
TEST(ScanTotals, LeaveWhatTheCallerReads) {
  Graph graph = parse_graph(R"(graph Outputs(H = 7) {
  input x: [H]
  state h: [H]
  %0 = input x : [H]
  %1 = state h @ 1 : [H]
  %2 = mul %0, %0 : [H]
  %3 = total %2 : [H]
  %4 = neg %0 : [H]
  %5 = add %1, %0 : [H]
  %6 = total %5 : [H]
  %7 = const 0 : []
  init h = %7
  next h = %5
  output y = %5
  output z = %4
  result squares = %3
  result sums = %6
}
)")
                    .value();
  graph.bind({{"H", 7}});
  const Result<Plan> plan = plan_graph(graph, {.batch = 2,
                                               .max_steps = 40,
                                               .chunk = 40,
                                               .machine = h200_machine(),
                                               .strategy = Strategy::Scan});
  ASSERT_TRUE(plan) << plan.error().message;
  const InterpreterArgs args = random_args(graph, 33, 2, 1);
  const Result<InterpreterResult> actual = execute_plan(*plan, args, {});
  ASSERT_TRUE(actual) << actual.error().message;
  const InterpreterResult expected = interpret(graph, args);
  EXPECT_LE(worst_error(actual->outputs, expected.outputs), 1e-5);
  EXPECT_LE(worst_error(actual->results, expected.results), 1e-5);
}

TEST(ScanTotals, AreAddedUpBesideWhatProductsRead) {
  Plan plan = backward_scan_plan("Biased");
  const ScanLaunch& scan = found_scan(plan);
  EXPECT_EQ(scan.totals.size(), 2U);
  EXPECT_EQ(count_sums(plan), 0);
  int64_t stores = 0;
  for (size_t i = 0; i < scan.accesses.size(); ++i) {
    const bool of_chunk = plan.buffers[scan.accesses[i].buffer].extent == Extent::Chunk;
    if (of_chunk && plan.kernels[scan.kernel].arguments[i].written) ++stores;
  }
  EXPECT_GE(stores, 1);
}

TEST(ScanTotals, HaveNoPartialsOnACpu) {
  Plan plan = backward_plan(
      "Turning", {.max_steps = 600, .machine = cpu_machine(2), .strategy = Strategy::Scan});
  EXPECT_GE(found_scan(plan).totals.size(), 2U);
  EXPECT_EQ(found_scan(plan).partials, kNoBuffer);
  EXPECT_EQ(count_sums(plan), 0);
}

TEST(ScanTotals, AreNotThoseOfLoops) {
  const Plan plan = backward_plan(
      "Turning", {.max_steps = 600, .machine = h200_machine(), .strategy = Strategy::Loop});
  EXPECT_GE(count_sums(plan), 1);
}

TEST(ScanTotals, AreSaid) {
  Plan plan = backward_scan_plan("Floor");
  const std::string text = to_string(plan);
  const ScanLaunch& scan = found_scan(plan);
  std::string arguments;
  for (const uint32_t i : scan.totals) {
    arguments += fmt::format("{}a{}", arguments.empty() ? "" : ", ", i);
  }
  EXPECT_NE(text.find(fmt::format(" adding up {} in tiles of ", arguments)), std::string::npos)
      << text;
  EXPECT_NE(
      text.find(fmt::format(", exchange in b{}, partials in b{}\n", scan.exchange, scan.partials)),
      std::string::npos)
      << text;
}

TEST(ScanTotals, AreReadFromText) {
  const std::string text = to_string(backward_scan_plan("Floor"));
  const auto complaint = [&](const std::string& from, const std::string& to) {
    std::string damaged = text;
    damaged.replace(damaged.find(from), from.size(), to);
    const Result<Plan> plan = parse_plan(damaged);
    return plan ? "none" : plan.error().message;
  };
  EXPECT_EQ(complaint(" adding up ", " adding up "), "none");
  EXPECT_NE(complaint(" adding up a", " adding up a9").find("there is no a9"), std::string::npos);
  EXPECT_NE(complaint(" adding up a", " adding up b").find("expected `a` and a number"),
            std::string::npos)
      << complaint(" adding up a", " adding up b");
  EXPECT_NE(complaint(", partials in b", ", partials in b9").find("there is no b9"),
            std::string::npos)
      << complaint(", partials in b", ", partials in b9");
}

TEST(ScanTotals, AreVerified) {
  const auto complaint = [](const auto& damage) {
    Plan plan = backward_scan_plan("Floor");
    damage(plan, found_scan(plan));
    const Status status = verify(plan);
    const std::string text = status ? "none" : status.error().message;
    return text.substr(text.rfind(": ") == std::string::npos ? 0 : text.rfind(": ") + 2);
  };
  Plan plan = backward_scan_plan("Floor");
  const std::vector<uint32_t> totals = found_scan(plan).totals;
  const auto name = [&](size_t i) { return fmt::format("a{}", totals[i]); };
  EXPECT_EQ(complaint([](Plan&, ScanLaunch&) {}), "none");
  EXPECT_EQ(complaint([](Plan&, ScanLaunch& l) { l.totals.push_back(0); }),
            "a0 is nothing to add up");
  EXPECT_EQ(complaint([](Plan&, ScanLaunch& l) { l.totals.push_back(l.totals[0]); }),
            name(0) + " is nothing to add up");
  EXPECT_EQ(complaint([](Plan&, ScanLaunch& l) { l.totals.push_back(l.carries[0].store); }),
            fmt::format("a{} is nothing to add up", found_scan(plan).carries[0].store));
  EXPECT_EQ(complaint([](Plan&, ScanLaunch& l) { l.totals.erase(l.totals.begin()); }),
            name(0) + " is stored where every step stores it");
  EXPECT_EQ(
      complaint([](Plan&, ScanLaunch& l) { l.accesses[l.totals[1]] = l.accesses[l.totals[0]]; }),
      fmt::format("{} and {} are added up in one place", name(0), name(1)));
  EXPECT_EQ(complaint([](Plan&, ScanLaunch& l) { l.partials = kNoBuffer; }),
            "totals of a scan have no partials");
  EXPECT_EQ(complaint([](Plan&, ScanLaunch& l) { l.totals.clear(); }).substr(0, 1), "a");
  EXPECT_EQ(complaint([](Plan& p, ScanLaunch& l) { p.buffers[l.partials].width = 8; }),
            fmt::format("b{} has no room for what tiles add up", found_scan(plan).partials));
  EXPECT_EQ(complaint([](Plan& p, ScanLaunch& l) {
              p.kernels[l.kernel].arguments[l.totals[0]].dtype = DType::f64;
            }).substr(0, name(0).size() + 16),
            name(0) + " is added up in ");
}

}  // namespace
}  // namespace rnnc::test
