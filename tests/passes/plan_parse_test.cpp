// Plans as text and back: nothing is lost.
#include "ir/plan/plan_parse.h"

#include <gtest/gtest.h>

#include "passes/build_plan.h"
#include "passes/options/strategy.h"
#include "tests/passes/cases.h"
#include "tests/passes/plan/small_plan.h"
#include "tests/support/case_files.h"
#include "tests/support/cells/golden_cases.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/cells/sequence_graphs.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

/// By field and by text. What came back.
Plan expect_round_trip(const Plan& plan) {
  const std::string text = to_string(plan);
  Result<Plan> parsed = parse_plan(text);
  EXPECT_TRUE(parsed) << parsed.error().message << "\n" << text;
  if (!parsed) return {};
  EXPECT_EQ(to_string(*parsed), text);
  EXPECT_EQ(parsed->buffers, plan.buffers);
  EXPECT_EQ(parsed->kernels, plan.kernels);
  EXPECT_TRUE(parsed->stages == plan.stages) << text;
  EXPECT_TRUE(parsed->states == plan.states) << text;
  EXPECT_TRUE(*parsed == plan) << text;
  return *std::move(parsed);
}

/// The CPU's, and the GPU's with resident recurrences and step by step, which plans differ for.
struct Target {
  Machine machine;
  PassSet passes;
};
std::vector<Target> targets() {
  const PassSet all = PassSet::all();
  return {{cpu_machine(1), all},
          {cpu_machine(4), PassSet::none()},
          {h200_machine(), all},
          {h200_machine(), all.without(Pass::Stack)},
          {h200_machine(), all.without(Pass::Resident)},
          {h200_machine(), all.without(Pass::Resident).without(Pass::Epilogue)}};
}

/// How many plans came back.
int expect_round_trips(const Graph& graph, const std::vector<DType>& dtypes, int64_t batch) {
  int count = 0;
  for (const auto& [machine, passes] : targets()) {
    for (const DType dtype : dtypes) {
      const bool sequences = count % 3 == 1;
      SCOPED_TRACE(fmt::format("{}, {}, {}, B {}", machine.name, passes.to_string(),
                               to_string(dtype), batch));
      const Result<Plan> plan = build_plan(graph, {.dtype = dtype,
                                                   .batch = batch,
                                                   .max_steps = 300,
                                                   .lengths = sequences,
                                                   .resets = sequences && count % 2 == 0,
                                                   .tf32 = count % 5 == 3,
                                                   .passes = passes,
                                                   .machine = machine});
      EXPECT_TRUE(plan) << plan.error().message;
      if (plan) expect_round_trip(*plan);
      ++count;
    }
  }
  return count;
}

class PlanParseOfCells : public testing::TestWithParam<std::string> {};

/// At two sizes, one of them large enough for what only large products have.
TEST_P(PlanParseOfCells, ComeBack) {
  GoldenCase golden_case = golden_cases(GetParam(), {DType::bf16}).front();
  for (const int64_t size : {7, 320}) {
    for (auto& [name, value] : golden_case.size.dims) {
      if (name == "H" || name == "F") value = size;
    }
    const Result<Graph> graph = golden_graph(golden_case);
    ASSERT_TRUE(graph) << graph.error().message;
    expect_round_trips(*graph, {DType::f32, DType::bf16}, size == 7 ? 3 : 16);
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, PlanParseOfCells, testing::ValuesIn(golden_cells()),
                         [](const auto& cell) { return cell.param; });

TEST(PlanParse, CasesAndGraphsOfSequencesComeBack) {
  for (const std::string& name : case_names()) {
    SCOPED_TRACE(name);
    expect_round_trips(load_case(name), {DType::f64, DType::f32, DType::f16}, 2);
  }
  for (const std::string& name : sequence_graphs()) {
    SCOPED_TRACE(name);
    expect_round_trips(sequence_graph(name), {DType::f32, DType::bf16}, 5);
  }
}

TEST(PlanParse, NetworksComeBack) {
  for (const std::string& name : networks()) {
    for (const int64_t size : {8, 256, 1030}) {
      SCOPED_TRACE(fmt::format("{} {}", name, size));
      expect_round_trips(network(name, size), {DType::f32, DType::bf16}, 16);
    }
  }
  expect_round_trips(tower(std::vector<std::string>(14, "Many"), 64), {DType::bf16}, 16);
  const std::vector<std::string> cells = {"Dense",  "Normed",      "Gated",      "Projected",
                                          "Update", "ResetBefore", "Elementwise"};
  expect_round_trips(tower(cells, 128), {DType::f32, DType::f16}, 8);
}

TEST(PlanParse, EveryStrategyComesBack) {
  int count = 0;
  for (const StrategyInfo& info : all_strategies()) {
    for (const int64_t size : {256, 2048}) {
      const Result<Plan> plan = build_plan(network("Stack", size), {.dtype = DType::bf16,
                                                                    .batch = 16,
                                                                    .max_steps = 300,
                                                                    .machine = h200_machine(),
                                                                    .strategy = info.strategy});
      if (!plan) continue;  // it cannot be
      expect_round_trip(*plan);
      ++count;
    }
  }
  EXPECT_GE(count, 6);
}

TEST(PlanParse, RandomGraphsComeBackAndExecuteAlike) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph graph =
        random_graph(seed, {.structure = seed % 2 == 1, .reversals = seed % 3 == 1});
    const std::vector<Target> all = targets();
    const auto& [machine, passes] = all[seed % all.size()];
    const Result<Plan> plan = build_plan(graph, {.dtype = DType::f32,
                                                 .batch = 2,
                                                 .max_steps = 11,
                                                 .chunk = 4,
                                                 .passes = passes,
                                                 .machine = machine});
    ASSERT_TRUE(plan) << plan.error().message;
    const Plan parsed = expect_round_trip(*plan);
    if (testing::Test::HasFailure()) return;
    const InterpreterArgs args = random_args(graph, 11, 2, seed, seed % 2 == 0);
    const InterpreterResult expected = execute_plan(*plan, args);
    const InterpreterResult actual = execute_plan(parsed, args);
    EXPECT_EQ(actual.outputs, expected.outputs);
    EXPECT_EQ(actual.final_states, expected.final_states);
  }
}

/// What no plan of `build_plan` has, or few.
TEST(PlanParse, OddFieldsComeBack) {
  SmallPlan small;
  Plan& plan = small.plan;
  plan.name = "a \"plan\": # no. 1";
  plan.note = "two\nlines \\ and \x01";
  plan.sweeps = 3;
  plan.workspace_bytes_per_step = 512;
  const BufferId x = small.caller("x: [I]", Role::Input, Extent::Steps, 8);
  plan.buffers[x].slot = 3;
  const BufferId h = small.buffer(" h", Extent::Chunk, 8, 2);
  plan.buffers[h].slot = 1;
  plan.buffers[h].pad = 3;
  plan.buffers[h].turned = true;
  const BufferId w = small.program_buffer("", Extent::Invariant, 64);
  const BufferId y = small.caller("y", Role::Output, Extent::Steps, 8);
  plan.buffers[y].offset = 256;
  GemmLaunch gemm = small.gemm(h, small.row(x), w);
  gemm.weight.stride = 16;
  gemm.left.stride = 3;
  gemm.transposed = true;
  gemm.once_rows = 5;
  gemm.accumulate = true;
  gemm.tf32 = true;
  gemm.n = 4;
  gemm.k = 4;
  CopyLaunch copy;
  copy.source = copy.target = {w, 0, 8, 0};
  copy.rows = 2;
  copy.columns = 4;
  CopyLaunch rows = copy;
  rows.source.stride = 4;
  rows.target.stride = 8;
  Stage& stage = small.stage(Domain::Once, {gemm, copy, rows}, 2);
  stage.name = "where (x)";
  stage.reason = "\"quoted\"";
  stage.phases = 2;
  stage.products = {x, h};
  stage.stack = {.below = 2, .ahead = {w}};
  SplitLaunch split{.source = small.row(x), .target = small.row(h), .length = 8, .part = 4};
  split.once_rows = 2;
  small.recurrence({split}).name = "";
  SplitLaunch turned{.source = small.row(x), .target = small.row(h), .length = 8, .part = 8};
  turned.weight = turned.turned = true;
  turned.parts = 1;
  TotalLaunch total{.left = small.row(x), .right = small.row(y), .out = {w, 0, 0, 0}};
  total.m = total.n = 2;
  total.accumulate = total.in_parts = total.turned = true;
  TotalLaunch earlier = total;
  earlier.in_parts = earlier.turned = false;
  earlier.earlier = true;
  small.stage(Domain::Sequence, {turned, total, earlier}, 1);
  Stage& late = small.recurrence({small.mean({small.row(x)}, {small.row(y)})});
  late.lag = 7;
  late.stack.ahead = {h};
  plan.kernels[0].name = "k: 1";
  plan.kernels[0].arguments[0].product = true;
  plan.kernels[0].arguments[0].vector = false;
  plan.kernels[0].body.back().vector = false;
  std::get<ElementwiseLaunch>(plan.stages.back().launches[0]).accesses[0] = {};
  for (const char* name : {"given", "final", "h, (c)", "declared", "last"}) {
    StatePlan& state = plan.states.emplace_back();
    state.name = name;
    state.sweep = 1;
    state.lag = 3;
  }
  plan.states[1].delay_of = 4;
  plan.states[4].delay_of = 2;
  plan.states[3].write_final = small.tanh({small.row(x)}, {small.row(y)});
  expect_round_trip(plan);
}

// ---- What is no plan ----

std::vector<FileCase> misread() {
  return read_file_cases("tests/passes/misread");
}

TEST(PlanParse, TheExampleComesBack) {
  const std::string text = misread()[0].frame;
  const Result<Plan> plan = parse_plan(text);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(to_string(*plan) + "\n", text);
  const std::string commented = "# a plan\n" + text + "# its end";
  const Result<Plan> same = parse_plan(commented);
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_TRUE(*same == *plan);
}

TEST(PlanParse, ErrorsSayWhereAndWhat) {
  const std::vector<FileCase> cases = misread();
  EXPECT_GE(cases.size(), 90u);
  for (const FileCase& one : cases) {
    SCOPED_TRACE(one.title);
    const Result<Plan> plan = parse_plan(one.framed(one.text()));
    ASSERT_FALSE(plan);
    expect_output(one, plan.error().message);
  }
}

/// Whatever it is, what is printed of it is a plan with the same text.
void read_any(const std::string& text) {
  const Result<Plan> plan = parse_plan(text);
  if (!plan) return;
  const std::string printed = to_string(*plan);
  const Result<Plan> again = parse_plan(printed);
  ASSERT_TRUE(again) << again.error().message << "\n" << text;
  EXPECT_EQ(to_string(*again), printed) << text;
}

TEST(PlanParse, DamagedTextsAreNoCrash) {
  const std::string text = misread()[0].frame;
  for (size_t end = 0; end < text.size(); ++end) read_any(text.substr(0, end));
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char* other : {"", "9", "-", "\xff", "\"", ",", "b", " 9007199254740991 "}) {
      std::string damaged = text;
      damaged.replace(at, 1, other);
      read_any(damaged);
    }
  }
}

}  // namespace
}  // namespace rnnc::test
