// Inputs of integers, and the rows of tables that they name: in Graphs and in Plans.
#include <gtest/gtest.h>

#include "ir/graph/interpreter.h"
#include "ir/graph/text.h"
#include "ir/graph/verify.h"
#include "ir/plan/plan.h"
#include "ir/plan/plan_parse.h"
#include "ir/plan/plan_text.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc {
namespace {

using Values = std::vector<double>;

constexpr std::string_view kGraph = R"(graph Words {
  input token: [] int
  input x: [2]
  param table: [3, 2]
  param bias: [3]
  %0 = input token : []
  %1 = param table : [3, 2]
  %2 = rows %1, %0 : [2]
  %3 = param bias : [3]
  %4 = rows %3, %0 : []
  %5 = real %0 : []
  %6 = total %0, %2 : [3, 2]
  %7 = input x : [2]
  output e = %2
  output b = %4
  output n = %5
  result sums = %6
}
)";

/// What is wrong with the graph with `from` replaced.
std::string complaint(std::string_view from, std::string_view to) {
  std::string text(kGraph);
  const size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  text.replace(place, from.size(), to);
  const Result<Graph> graph = parse_graph(text);
  if (!graph) return graph.error().message;
  const Status status = verify(*graph);
  return status ? "none" : status.error().message;
}

TEST(Tables, GraphText) {
  const Result<Graph> graph = parse_graph(kGraph);
  ASSERT_TRUE(graph) << graph.error().message;
  const std::string text = to_string(*graph);
  EXPECT_EQ(to_string(*parse_graph(text)), text);
  EXPECT_NE(text.find("input token: [] int\n"), std::string::npos);
  EXPECT_EQ(tables_of(*graph, 0), (std::vector<NodeId>{1, 3}));
  EXPECT_TRUE(tables_of(*graph, 1).empty());
}

TEST(Tables, VerifiedGraphs) {
  EXPECT_EQ(complaint("", ""), "none");
  EXPECT_EQ(complaint("token: [] int", "token: []"), "%2 = rows: operand %0 is no integer");
  EXPECT_EQ(complaint("token: [] int", "token: [2] int"), "input `token`: an integer is a scalar");
  EXPECT_EQ(complaint("input token : []", "input token @ 1 : []"),
            "%0 = input: integers are of their own step");
  EXPECT_EQ(complaint("real %0", "tanh %0"), "%5 = tanh: operand %0 is an integer");
  EXPECT_EQ(complaint("output n = %5", "output n = %0"), "output `n` is an integer");
  EXPECT_EQ(complaint("rows %3, %0 : []", "rows %0, %3 : []"),
            "%4 = rows: operand %0 is an integer");
  EXPECT_EQ(complaint("rows %1, %0 : [2]", "rows %1, %0 : [3]"),
            "%2 = rows: its shape is [2], not [3]");
  EXPECT_EQ(complaint("total %0, %2 : [3, 2]", "total %0, %4 : [3, 2]"),
            "%6 = total: its shape is [3, 2], its operands' [], []");
}

TEST(Tables, AnIntegerWithoutARowReadsZerosAndAddsNothing) {
  const Graph graph = *parse_graph(kGraph);
  const InterpreterArgs args = {.steps = 3,
                                .batch = 2,
                                .inputs = {{0, 2, -1, 3, 2, 2}, Values(12)},
                                .params = {{1, 2, 3, 4, 5, 6}, {7, 8, 9}},
                                .initial_states = {}};
  const InterpreterResult result = interpret(graph, args);
  EXPECT_EQ(result.outputs[0], (Values{1, 2, 5, 6, 0, 0, 0, 0, 5, 6, 5, 6}));
  EXPECT_EQ(result.outputs[1], (Values{7, 9, 0, 0, 9, 9}));
  EXPECT_EQ(result.outputs[2], (Values{0, 2, -1, 3, 2, 2}));
  EXPECT_EQ(result.results[0], (Values{1, 2, 0, 0, 15, 18}));
}

constexpr std::string_view kPlan = R"(plan Words: f32, batch 2, chunk 2
memory: workspace 1024 bytes, program 0 bytes
buffers:
  b0 token: i32 caller input, steps x 1, slot 0
  b1 table: f32 caller param, invariant x 6, slot 0
  b2 e: f32 workspace temporary, chunk x 2, at 0, 32 bytes
  b3 sums: f32 workspace temporary, invariant x 6, at 256, 24 bytes
  b4 n: f32 workspace temporary, chunk x 1, at 512, 16 bytes
  b5 y: f32 caller output, steps x 2, slot 0
  b6 sums: f32 caller result, invariant x 6, slot 0
kernels:
  k0 out: rows of 2
    a0: in f32 vector
    a1: in f32 scalar
    a2: out f32 vector
    %0 = load a0 : vector
    %1 = load a1 : scalar
    %2 = add %0, %1 : vector
    store a2, %2
stages:
  sequence:
    rows b2 = b1 of 3 at b0
    real b4 = b0
    add rows b3 of 3 += b2 at b0
    k0(b2, b4, b5)
  last:
    copy b6 = b3
states:
)";

Plan parsed() {
  Result<Plan> plan = parse_plan(kPlan);
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? *plan : Plan{};
}

template <typename L, typename Change>
std::string plan_complaint(size_t launch, const Change& change) {
  Plan plan = parsed();
  change(plan, std::get<L>(plan.stages[0].launches[launch]));
  const Status status = verify(plan);
  return status ? "none" : status.error().message;
}

TEST(Tables, PlanText) {
  EXPECT_EQ(to_string(parsed()), kPlan);
}

TEST(Tables, VerifiedPlans) {
  const auto rows = [](const auto& change) { return plan_complaint<RowsLaunch>(0, change); };
  const std::string at = "stage 0: launch 0: ";
  EXPECT_EQ(rows([](Plan&, RowsLaunch&) {}), "none");
  EXPECT_EQ(rows([](Plan&, RowsLaunch& l) { l.count = 0; }), at + "a table of nothing");
  EXPECT_EQ(rows([](Plan&, RowsLaunch& l) { l.count = 4; }),
            at + "columns from 0 are outside table");
  EXPECT_EQ(rows([](Plan& p, RowsLaunch&) { p.buffers[0].dtype = DType::f32; }),
            at + "token is f32, not i32");
  EXPECT_EQ(rows([](Plan& p, RowsLaunch&) { p.buffers[1].dtype = DType::f64; }),
            at + "e is f32, not f64");
  EXPECT_EQ(rows([](Plan&, RowsLaunch& l) { l.target = {5, 0, 0, 2}; }),
            "stage 0: launch 2: e is read before it is written");
  EXPECT_EQ(rows([](Plan&, RowsLaunch& l) { l.target = {3, 0, 0, 0}; }),
            at + "the target sums has no steps");
  EXPECT_EQ(rows([](Plan&, RowsLaunch& l) {
              l.table = {5, 0, 0, 2};
              l.count = 1;
            }),
            at + "y is not to be read");
  EXPECT_EQ(rows([](Plan& p, RowsLaunch& l) { p.stages[1].launches.emplace_back(l); }),
            "stage 1: launch 1: rows of tables are for Sequence stages");
  EXPECT_EQ(plan_complaint<RealLaunch>(1, [](Plan&, RealLaunch& l) { l.source.buffer = 1; }),
            "stage 0: launch 1: table is f32, not i32");
  EXPECT_EQ(plan_complaint<RealLaunch>(
                1, [](Plan& p, RealLaunch& l) { p.stages[1].launches.emplace_back(l); }),
            "stage 1: launch 1: numbers of integers are for Sequence stages");
  EXPECT_EQ(plan_complaint<RowTotalLaunch>(2, [](Plan&, RowTotalLaunch& l) { l.width = 0; }),
            "stage 0: launch 2: a table of nothing");
}

TEST(Tables, PlansRun) {
  const InterpreterArgs args = {.steps = 3,
                                .batch = 2,
                                .inputs = {{0, 2, -1, 3, 2, 2}},
                                .params = {{1, 2, 3, 4, 5, 6}},
                                .initial_states = {}};
  const InterpreterResult result = execute_plan(parsed(), args);
  EXPECT_EQ(result.outputs[0], (Values{1, 2, 7, 8, -1, -1, 3, 3, 7, 8, 7, 8}));
  EXPECT_EQ(result.results[0], (Values{1, 2, 0, 0, 15, 18}));
}

}  // namespace
}  // namespace rnnc
