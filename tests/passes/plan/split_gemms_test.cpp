#include "passes/plan/split_gemms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/plan/waves.h"
#include "passes/build_plan.h"
#include "passes/memory/memory.h"
#include "passes/plan/padding.h"
#include "passes/plan/wavefront.h"
#include "tests/passes/cases.h"
#include "tests/support/cells/elman_graph.h"
#include "tests/support/cells/random_graph.h"
#include "tests/support/cells/sequence_cases.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

constexpr PassSet kByStep = PassSet::all().without(Pass::Resident);
constexpr PassSet kNotMerged = kByStep.without(Pass::Merge);

struct SplitSetting {
  int64_t batch = 3;
  int64_t chunk = 4;
  bool tf32 = false;
  PassSet passes = kByStep;
};

/// As `build_plan` makes it, but any product is split, and any that is not aligned has pads.
Plan split_plan(const Graph& graph, const SplitSetting& setting) {
  const Machine machine = h200_machine();
  const PassSet early =
      setting.passes.without(Pass::Split).without(Pass::Pad).without(Pass::Wavefront);
  Result<Plan> plan = build_plan(graph, {.batch = setting.batch,
                                         .max_steps = 11,
                                         .chunk = setting.chunk,
                                         .tf32 = setting.tf32,
                                         .passes = early,
                                         .machine = machine});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  run_split_gemms(*plan, machine, {.max_steps = 11, .always = true});
  if (setting.passes.has(Pass::Pad)) {
    run_padding(*plan, machine, {.max_steps = 11, .least_rows = 1, .least_size = 1});
  }
  if (setting.passes.has(Pass::Wavefront)) run_wavefront(*plan, machine);
  Status status = assign_memory(*plan, setting.passes.has(Pass::Reuse));
  if (status) status = verify(*plan);
  RNNC_CHECK(status.has_value(), "{}\n{}", status.error().message, to_string(*plan));
  return *std::move(plan);
}

/// y = W x + z, z = V^T x: three operands, of which x is one.
Graph two_products(int64_t inputs, int64_t size) {
  return graph_from(fmt::format(R"(graph Two(I = {}, H = {}) {{
  input x: [I]
  param W: [H, I]
  param V: [I, H]
  %0 = input x : [I]
  %1 = param W : [H, I]
  %2 = param V : [I, H]
  %3 = matmul %1, %0 : [H]
  %4 = matmul %0, %2 : [H]
  %5 = tanh %4 : [H]
  %6 = mul %3, %5 : [H]
  output y = %3
  output z = %6
}}
)",
                                inputs, size));
}

template <typename L>
std::vector<L> launches(const Plan& plan, std::optional<Domain> domain = {}) {
  std::vector<L> result;
  for (const Stage& stage : plan.stages) {
    if (domain && stage.domain != *domain) continue;
    for (const Launch& launch : stage.launches) {
      if (const auto* one = std::get_if<L>(&launch)) result.push_back(*one);
    }
  }
  return result;
}

/// Memory that nothing has written is NaN.
void compare_split(const Graph& graph, const InterpreterArgs& args, const SplitSetting& setting) {
  SCOPED_TRACE(fmt::format("B {}, C {}, passes {}", setting.batch, setting.chunk,
                           setting.passes.to_string()));
  const InterpreterResult expected = interpret_sequences(graph, args, {}, {});
  InterpreterResult actual = execute_plan(split_plan(graph, setting), args);
  ASSERT_GE(actual.final_states.size(), expected.final_states.size());
  actual.final_states.resize(expected.final_states.size());  // those of delays are the plan's own
  EXPECT_LE(error_of_results(actual, expected), 2e-5);
}

TEST(SplitGemms, ChangeNoResultWhateverTheSizes) {
  for (const int64_t inputs : {1, 3, 7, 33, 300}) {
    for (const int64_t size : {1, 3, 7, 33}) {
      SCOPED_TRACE(fmt::format("{} x {}", inputs, size));
      for (const Graph& graph : {elman_graph(inputs, size), two_products(inputs, size)}) {
        const InterpreterArgs args = random_args(graph, 11, 3, 1, /*with_initial_states=*/true);
        for (const PassSet passes : {kByStep, kNotMerged, PassSet::all()}) {
          compare_split(graph, args, {.passes = passes});
        }
      }
    }
  }
}

TEST(SplitGemms, ChangeNoResultOfTheCases) {
  for (const std::string& name : case_names()) {
    SCOPED_TRACE(name);
    const Graph graph = load_case(name);
    const InterpreterArgs args = random_args(graph, 11, 3, 1);
    for (const int64_t chunk : {1, 4}) {
      for (const PassSet passes : {PassSet::all(), kNotMerged, kByStep.without(Pass::Reuse)}) {
        compare_split(graph, args, {.chunk = chunk, .passes = passes});
      }
    }
  }
}

TEST(SplitGemms, ChangeNoResultOfRandomGraphs) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph graph =
        random_graph(seed, {.structure = seed % 2 == 1, .reversals = seed % 3 == 1});
    const InterpreterArgs args = random_args(graph, 11, 2, seed, seed % 2 == 0);
    for (const PassSet passes : {kByStep, kNotMerged, PassSet::all(), PassSet::none()}) {
      compare_split(graph, args, {.batch = 2, .passes = passes});
    }
  }
}

/// f32 of all bits.
void fill(std::vector<double>& values, double first) {
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(std::sin(first + 1.7 * static_cast<double>(i)));
  }
}

/// Of a product of parts, the last third.
void keep_large_part(GemmLaunch& gemm) {
  gemm.weight.stride = gemm.k;
  gemm.k /= kSplitParts;
  gemm.left.column = gemm.weight.column = 2 * gemm.k;
}

TEST(SplitGemms, KeepTheAccuracyOfF32) {
  const Graph graph = two_products(300, 33);
  InterpreterArgs args = random_args(graph, 11, 3, 1);
  fill(args.inputs[0], 0.1);
  fill(args.params[0], 0.2);
  fill(args.params[1], 0.3);
  const InterpreterResult expected = interpret_sequences(graph, args, {}, {});
  Plan plan = split_plan(graph, {.passes = kNotMerged});
  const auto error = [&] {
    const InterpreterResult actual = execute_plan(plan, args);
    double most = 0;
    for (size_t i = 0; i < expected.outputs[0].size(); ++i) {
      most = std::max(most, std::abs(actual.outputs[0][i] - expected.outputs[0][i]));
    }
    return most;
  };
  // Results of more than 128 are rounded by up to 2^-17.
  EXPECT_LE(error(), 0x1p-17 + 0x1p-20);
  for (Stage& stage : plan.stages) {
    for (Launch& launch : stage.launches) {
      if (auto* gemm = std::get_if<GemmLaunch>(&launch)) keep_large_part(*gemm);
    }
  }
  EXPECT_GE(error(), 1e-3);
}

// ---- Totals: gradients of weights ----

TEST(SplitGemms, ChangeNoGradient) {
  uint64_t seed = 0;
  for (const char* name : {"lstm", "gru", "gru_reset_before", "layer_norm_lstm", "elman",
                           "stacked_lstm", "two_recurrences", "bidirectional", "min_gru"}) {
    for (const int64_t hidden : {1, 3, 8, 33}) {
      SCOPED_TRACE(fmt::format("{} {}", name, hidden));
      const Graph half = load_backward_half(name, {{"H", hidden}});
      constexpr int64_t kBatches[] = {1, 3, 4, 5, 6, 7, 33};
      const int64_t batch = kBatches[++seed % std::size(kBatches)];
      const int64_t chunk = seed % 2 == 0 ? 4 : 3;  // and the last one is shorter
      const InterpreterArgs args = random_args(half, 11, batch, seed);
      const InterpreterResult expected = interpret(half, args);
      for (const PassSet passes : {kByStep, kNotMerged, PassSet::all()}) {
        const Plan plan = split_plan(half, {.batch = batch, .chunk = chunk, .passes = passes});
        const std::vector<TotalLaunch> totals = launches<TotalLaunch>(plan, Domain::Sequence);
        EXPECT_TRUE(std::ranges::any_of(totals, &TotalLaunch::in_parts));
        EXPECT_TRUE(std::ranges::any_of(totals, &TotalLaunch::turned));
        const InterpreterResult actual = execute_plan(plan, args);
        EXPECT_LE(worst_error(actual.outputs, expected.outputs), 2e-5);
        EXPECT_LE(worst_error(actual.results, expected.results), 2e-5);
      }
    }
  }
}

TEST(SplitGemms, TurnTheRightOperandsOfTotalsInTf32) {
  for (const char* name : {"lstm", "gru", "stacked_lstm", "bidirectional"}) {
    SCOPED_TRACE(name);
    const Graph half = load_backward_half(name, {{"H", 33}});
    for (const int64_t batch : {1, 3, 4, 5, 6, 7, 33}) {
      SCOPED_TRACE(batch);
      const InterpreterArgs args = random_args(half, 11, batch, 1);
      const InterpreterResult expected = interpret(half, args);
      const Plan plan = split_plan(half, {.batch = batch, .chunk = 5, .tf32 = true});
      for (const TotalLaunch& total : launches<TotalLaunch>(plan, Domain::Sequence)) {
        EXPECT_FALSE(total.in_parts);
        EXPECT_EQ(total.turned, total.right.buffer != kNoBuffer);
      }
      const InterpreterResult actual = execute_plan(plan, args);
      EXPECT_LE(worst_error(actual.outputs, expected.outputs), 1e-2);
      EXPECT_LE(worst_error(actual.results, expected.results), 1e-2);
    }
  }
}

/// Columns have the rows of a chunk and up to three more, whatever its length: workspaces have at
/// most so much of them that does not grow with it.
TEST(SplitGemms, TurnToColumnsThatAreAligned) {
  const Graph half = load_backward_half("lstm", {{"H", 8}});
  for (const int64_t batch : {1, 2, 3, 4, 5, 33}) {
    for (const int64_t chunk : {1, 2, 3, 4, 7, 11}) {
      const Plan plan = split_plan(half, {.batch = batch, .chunk = chunk, .tf32 = true});
      const int64_t rows = chunk * batch;
      EXPECT_EQ(turned_rows(plan) % 4, 0);
      EXPECT_TRUE(turned_rows(plan) >= rows && turned_rows(plan) < rows + 4);
      size_t turned = 0;
      for (const Buffer& buffer : plan.buffers) {
        if (!buffer.turned) continue;
        ++turned;
        EXPECT_EQ(byte_size(plan, buffer), turned_rows(plan) * buffer.width * 4);
      }
      EXPECT_GE(turned, 1U);
    }
  }
}

TEST(SplitGemms, KeepTheAccuracyOfF32InTotals) {
  const Graph half = load_backward_half("elman", {{"H", 33}});
  InterpreterArgs args = random_args(half, 11, 3, 1);
  for (size_t i = 0; i < args.inputs.size(); ++i)
    fill(args.inputs[i], 0.1 + 0.1 * static_cast<double>(i));
  const InterpreterResult expected = interpret(half, args);
  Plan plan = split_plan(half, {});
  const auto error = [&] {
    return worst_error(execute_plan(plan, args).results, expected.results);
  };
  EXPECT_LE(error(), 2e-6);
  // As if operands were rounded.
  for (Stage& stage : plan.stages) {
    for (Launch& launch : stage.launches) {
      auto* total = std::get_if<TotalLaunch>(&launch);
      if (total == nullptr || !total->in_parts) continue;
      total->left.column += 2 * part_stride(*total, total->left);
      total->right.column += 2 * part_stride(*total, total->right);
      total->in_parts = false;
    }
  }
  EXPECT_GE(error(), 2e-5);
}

// ---- Infinities, NaNs, and numbers near the limits ----

/// What f32 makes of a product of x and W, each with `values` somewhere.
void compare_special(double of_x, double of_weight) {
  SCOPED_TRACE(fmt::format("{} in x, {} in W", of_x, of_weight));
  const Graph graph = two_products(7, 5);
  InterpreterArgs args = random_args(graph, 4, 2, 1);
  args.inputs[0][3] = of_x;
  args.params[0][3] = of_weight;  // meets that x, and others
  args.params[0][7] = of_weight;  // meets others alone
  const InterpreterResult expected = interpret_sequences(graph, args, {}, {});
  const InterpreterResult actual = execute_plan(split_plan(graph, {.batch = 2}), args);
  for (size_t i = 0; i < expected.outputs[0].size(); ++i) {
    const auto wanted = static_cast<float>(expected.outputs[0][i]);
    const auto got = static_cast<float>(actual.outputs[0][i]);
    if (std::isnan(wanted) || std::isinf(wanted)) {
      EXPECT_EQ(std::isnan(wanted), std::isnan(got)) << i << ": " << got << ", not " << wanted;
      EXPECT_TRUE(std::isnan(wanted) || got == wanted) << i << ": " << got << ", not " << wanted;
    } else {
      EXPECT_NEAR(got, wanted, 1e-6 * std::max(1.0F, std::abs(wanted))) << i;
    }
  }
}

TEST(SplitGemms, TreatWhatIsNotFiniteAsF32Does) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto values = {kInfinity, -kInfinity, kNan,   0.0,   1.0 + 1e-6, 1.2e30,
                       -1.2e30,   6.7e7,      -6.7e7, 1e-38, 1e-42,      -1e-45};
  for (const double of_x : values) {
    for (const double of_weight : values) {
      if (std::abs(of_weight) > 6.7e7 && std::abs(of_weight) < 1e38) continue;
      compare_special(of_x, of_weight);
    }
  }
}

TEST(SplitGemms, MakeNoNanOfAnInfinity) {
  constexpr double kHuge = 0x1.0008p120;  // a" < 0: products of parts have the other sign
  for (const double of_x : {kHuge, -kHuge}) {
    for (const double of_weight : {kHuge, -kHuge, 0x1.0018p30}) {
      const Graph graph = two_products(7, 5);
      InterpreterArgs args = random_args(graph, 4, 2, 1);
      args.inputs[0][3] = of_x;
      args.params[0][3] = of_weight;
      const InterpreterResult actual = execute_plan(split_plan(graph, {.batch = 2}), args);
      const auto got = static_cast<float>(actual.outputs[0][0]);
      EXPECT_TRUE(std::isinf(got)) << got;
      EXPECT_EQ(std::signbit(got), of_x * of_weight < 0);
    }
  }
}

// ---- The plan ----

struct Choice {
  PassSet passes = kByStep;
  DType dtype = DType::f32;
  int64_t batch = 16;
  int64_t max_steps = 256;
  bool tf32 = false;
  Machine machine = h200_machine();
};

Plan plan_of(const Graph& graph, const Choice& choice) {
  Result<Plan> plan = build_plan(graph, {.dtype = choice.dtype,
                                         .batch = choice.batch,
                                         .max_steps = choice.max_steps,
                                         .chunk = std::min<int64_t>(choice.max_steps, 128),
                                         .tf32 = choice.tf32,
                                         .passes = choice.passes,
                                         .machine = choice.machine});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

bool has_parts(const Plan& plan) {
  return !launches<SplitLaunch>(plan).empty();
}

TEST(SplitGemms, AreForLargeProductsOfF32OnGpus) {
  const Graph large = elman_graph(1024, 4096);
  EXPECT_TRUE(has_parts(plan_of(large, {})));
  EXPECT_TRUE(has_parts(plan_of(large, {.passes = PassSet::all()})));
  EXPECT_FALSE(has_parts(plan_of(large, {.passes = kByStep.without(Pass::Split)})));
  EXPECT_FALSE(has_parts(plan_of(large, {.machine = cpu_machine(2)})));
  EXPECT_FALSE(has_parts(plan_of(large, {.dtype = DType::bf16})));
  EXPECT_FALSE(has_parts(plan_of(large, {.tf32 = true})));
  // Weights are split once a call, and a few rows take no time.
  EXPECT_FALSE(has_parts(plan_of(large, {.batch = 1, .max_steps = 2})));
  EXPECT_FALSE(has_parts(plan_of(elman_graph(32, 32), {})));
  // What is narrow takes longer to split than to multiply.
  EXPECT_FALSE(has_parts(plan_of(elman_graph(1024, 8), {})));
}

std::ptrdiff_t turned_totals(const Plan& plan) {
  const std::vector<TotalLaunch> totals = launches<TotalLaunch>(plan);
  return std::ranges::count_if(totals, &TotalLaunch::turned);
}

std::ptrdiff_t totals_in_parts(const Plan& plan) {
  const std::vector<TotalLaunch> totals = launches<TotalLaunch>(plan);
  return std::ranges::count_if(totals, &TotalLaunch::in_parts);
}

TEST(SplitGemms, AreForLargeTotalsOfF32OnGpus) {
  const Graph large = load_backward_half("lstm", {{"H", 1024}});
  EXPECT_EQ(totals_in_parts(plan_of(large, {})), 1);  // of h: x is narrow
  EXPECT_EQ(totals_in_parts(plan_of(large, {.passes = kByStep.without(Pass::Split)})), 0);
  EXPECT_EQ(totals_in_parts(plan_of(large, {.machine = cpu_machine(2)})), 0);
  EXPECT_EQ(totals_in_parts(plan_of(large, {.dtype = DType::bf16})), 0);
  EXPECT_EQ(totals_in_parts(plan_of(large, {.tf32 = true})), 0);
  EXPECT_EQ(turned_totals(plan_of(large, {})), 1);
  EXPECT_EQ(turned_totals(plan_of(large, {.tf32 = true})), 1);
  EXPECT_EQ(turned_totals(plan_of(large, {.dtype = DType::bf16})), 0);
  EXPECT_EQ(turned_totals(plan_of(large, {.batch = 63})), 1);
  EXPECT_EQ(turned_totals(plan_of(large, {.batch = 63, .tf32 = true})), 1);
  // Single steps of odd batches begin anywhere, and so do pieces of few steps.
  EXPECT_EQ(turned_totals(plan_of(large, {.batch = 2047, .max_steps = 3, .tf32 = true})), 0);
  EXPECT_EQ(turned_totals(plan_of(large, {.batch = 2048, .max_steps = 3, .tf32 = true})), 1);
  EXPECT_EQ(turned_totals(plan_of(large, {.batch = 513})), 0);
  EXPECT_EQ(totals_in_parts(plan_of(large, {.batch = 513})), 1);
  EXPECT_EQ(turned_totals(plan_of(large, {.batch = 513, .tf32 = true})), 1);
  // A step alone is more rows than are added up at once.
  EXPECT_EQ(totals_in_parts(plan_of(large, {.batch = kMostSplitRows + 1})), 0);
  EXPECT_EQ(totals_in_parts(plan_of(load_backward_half("lstm", {{"H", 8}}), {})), 0);
}

/// So that pieces of totals end where columns are aligned.
TEST(SplitGemms, MakeChunksOfWholeColumns) {
  const Graph large = load_backward_half("lstm", {{"H", 1024}});
  for (const int64_t batch : {3, 33, 62}) {
    for (const int64_t steps : {999, 1001, 1500}) {
      SCOPED_TRACE(fmt::format("{} x {}", steps, batch));
      const Result<Plan> plan = build_plan(
          large, {.batch = batch, .max_steps = steps, .tf32 = true, .machine = h200_machine()});
      ASSERT_TRUE(plan) << plan.error().message;
      EXPECT_GE(turned_totals(*plan), 1);
      EXPECT_EQ(plan->chunk * batch % kTurnedUnit, 0) << plan->chunk;
    }
  }
}

TEST(SplitGemms, StayAsTheyAreWithoutThePass) {
  const PassSet without = PassSet::all().without(Pass::Split);
  const std::string text = to_string(plan_of(elman_graph(1024, 4096), {.passes = without}));
  EXPECT_EQ(text.find("split"), std::string::npos) << text;
  EXPECT_EQ(text.find("TF32"), std::string::npos) << text;
  EXPECT_NE(text.find("b0 @ b1^T, n 4096, k 1024\n"), std::string::npos) << text;
}

TEST(SplitGemms, AreSeenInTheText) {
  const std::string text = to_string(plan_of(elman_graph(1022, 4096), {}));
  for (const char* line :
       {"parts of x: f32 workspace temporary, chunk x 3072, at ",
        "parts of W: f32 program temporary, invariant x 12582912, at ",
        " = b1[0:1022, stride 1022], a weight, parts of 1024, 4096 rows\n",
        " = b0, a left operand, parts of 1024\n", "^T, n 4096, k 3072, in TF32\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

}  // namespace
}  // namespace rnnc::test
