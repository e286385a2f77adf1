#include "passes/plan/padding.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/graph/interpreter.h"
#include "ir/graph/text.h"
#include "passes/build_plan.h"
#include "passes/memory/memory.h"
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
constexpr PassSet kApart = kByStep.without(Pass::Epilogue);
constexpr int64_t kAlignedBytes = 16;

struct Setting {
  DType dtype = DType::f32;
  int64_t batch = 3;
  int64_t chunk = 4;
  PassSet passes = kByStep;
};

/// As `build_plan` makes it, but any product is worth it.
Plan padded_plan(const Graph& graph, const Setting& setting) {
  const Machine machine = h200_machine();
  Result<Plan> plan =
      build_plan(graph, {.dtype = setting.dtype,
                         .batch = setting.batch,
                         .max_steps = 11,
                         .chunk = setting.chunk,
                         .passes = setting.passes.without(Pass::Pad).without(Pass::Wavefront),
                         .machine = machine});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  run_padding(*plan, machine,
              {.max_steps = 11, .least_rows = 1, .least_size = 1, .least_library_rows = 1});
  if (setting.passes.has(Pass::Wavefront)) run_wavefront(*plan, machine);
  Status status = assign_memory(*plan, setting.passes.has(Pass::Reuse));
  if (status) status = verify(*plan);
  RNNC_CHECK(status.has_value(), "{}\n{}", status.error().message, to_string(*plan));
  return *std::move(plan);
}

double tolerance(DType dtype) {
  if (dtype == DType::f32) return 2e-5;
  return dtype == DType::bf16 ? 5e-2 : 1e-2;
}

/// Memory that nothing has written is NaN.
void compare(const Graph& graph, const InterpreterArgs& args, const Setting& setting) {
  SCOPED_TRACE(fmt::format("{}, B {}, C {}, passes {}", to_string(setting.dtype), setting.batch,
                           setting.chunk, setting.passes.to_string()));
  const InterpreterResult expected = interpret_sequences(graph, args, {}, {});
  InterpreterResult actual = execute_plan(padded_plan(graph, setting), args);
  ASSERT_GE(actual.final_states.size(), expected.final_states.size());
  actual.final_states.resize(expected.final_states.size());  // those of delays are the plan's own
  EXPECT_LE(error_of_results(actual, expected), tolerance(setting.dtype));
}

bool is_aligned(const Plan& plan, const Access& access, int64_t stride) {
  const auto element = static_cast<int64_t>(size_of(plan.buffers[access.buffer].dtype));
  return access.column * element % kAlignedBytes == 0 && stride * element % kAlignedBytes == 0;
}

/// Of products that are launches of their own.
void expect_aligned(const Plan& plan) {
  for (const Stage& stage : plan.stages) {
    if (stage.domain == Domain::Once) continue;
    for (const Launch& launch : stage.launches) {
      const auto* gemm = std::get_if<GemmLaunch>(&launch);
      if (gemm == nullptr) continue;
      EXPECT_TRUE(is_aligned(plan, gemm->left, gemm->left.stride)) << to_string(plan);
      EXPECT_TRUE(is_aligned(plan, gemm->out, gemm->out.stride)) << to_string(plan);
      EXPECT_TRUE(is_aligned(plan, gemm->weight, weight_stride(*gemm))) << to_string(plan);
      EXPECT_EQ(gemm->weight.stride, 0) << to_string(plan);
    }
  }
}

constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f16};

TEST(Padding, RowsOfEveryProductAreAligned) {
  for (const int64_t inputs : {1, 3, 7, 33, 300, 1000, 1061}) {
    for (const int64_t size : {1, 7, 33, 300}) {
      for (const DType dtype : kDTypes) {
        SCOPED_TRACE(fmt::format("{} x {}, {}", inputs, size, to_string(dtype)));
        for (const PassSet passes : {kByStep, kApart, PassSet::all()}) {
          expect_aligned(
              padded_plan(elman_graph(inputs, size), {.dtype = dtype, .passes = passes}));
        }
      }
    }
  }
}

TEST(Padding, ChangesNoResultWhateverTheSizes) {
  for (const int64_t inputs : {1, 3, 7, 33}) {
    for (const int64_t size : {1, 3, 7, 33}) {
      SCOPED_TRACE(fmt::format("{} x {}", inputs, size));
      const Graph graph = elman_graph(inputs, size);
      const InterpreterArgs args = random_args(graph, 11, 3, 1, /*with_initial_states=*/true);
      for (const DType dtype : kDTypes) {
        for (const PassSet passes : {kByStep, kApart, PassSet::all()}) {
          compare(graph, args, {.dtype = dtype, .passes = passes});
        }
      }
    }
  }
}

/// The caller's rows of y are of `size` elements; products in TF32 have whole columns.
TEST(Padding, ProductsInTf32HaveWholeColumns) {
  for (const int64_t inputs : {33, 40, 300}) {
    for (const int64_t size : {33, 40, 301}) {
      SCOPED_TRACE(fmt::format("{} x {}", inputs, size));
      Graph graph = parse_graph(R"(graph Product(I, H) {
  input x: [I]
  param W: [H, I]
  %0 = input x : [I]
  %1 = param W : [H, I]
  %2 = matmul %1, %0 : [H]
  output y = %2
}
)")
                        .value();
      graph.bind({{"I", inputs}, {"H", size}});
      const Result<Plan> plan =
          build_plan(graph, {.batch = 3, .max_steps = 11, .tf32 = true, .machine = h200_machine()});
      ASSERT_TRUE(plan.has_value()) << plan.error().message;
      expect_aligned(*plan);
      for (const Stage& stage : plan->stages) {
        for (const Launch& launch : stage.launches) {
          const auto* gemm = std::get_if<GemmLaunch>(&launch);
          if (gemm == nullptr) continue;
          EXPECT_EQ(gemm->n % 4, 0) << to_string(*plan);
        }
      }
      const InterpreterArgs args = random_args(graph, 11, 3, 1);
      const InterpreterResult actual = execute_plan(*plan, args);
      EXPECT_LE(worst_error(actual.outputs, interpret(graph, args).outputs), 2e-3);
    }
  }
}

TEST(Padding, ChangesNoResultOfTheCases) {
  for (const std::string& name : case_names()) {
    SCOPED_TRACE(name);
    const Graph graph = load_case(name);
    for (const int64_t chunk : {1, 4}) {
      const InterpreterArgs args = random_args(graph, 11, 3, 1);
      for (const PassSet passes : {PassSet::all(), kApart, kApart.without(Pass::Reuse)}) {
        compare(graph, args, {DType::bf16, 3, chunk, passes});
        compare(graph, args, {DType::f32, 3, chunk, passes});
      }
    }
  }
}

TEST(Padding, ChangesNoResultOfRandomGraphs) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph graph =
        random_graph(seed, {.structure = seed % 2 == 1, .reversals = seed % 3 == 1});
    const InterpreterArgs args = random_args(graph, 11, 2, seed, seed % 2 == 0);
    for (const PassSet passes : {kApart, kByStep, PassSet::none()}) {
      compare(graph, args, {.batch = 2, .passes = passes});
    }
  }
}

Plan plan_of(const Graph& graph, PassSet passes, const Machine& machine) {
  Result<Plan> plan = build_plan(graph, {.dtype = DType::f16,
                                         .batch = 64,
                                         .max_steps = 50,
                                         .chunk = 10,
                                         .passes = passes,
                                         .machine = machine});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *std::move(plan);
}

bool has_pads(const Plan& plan) {
  return std::ranges::any_of(plan.buffers, [](const Buffer& buffer) { return buffer.pad > 0; });
}

TEST(Padding, IsForGpusAndProductsThatAreWorthIt) {
  const Graph large = elman_graph(1061, 333);
  EXPECT_TRUE(has_pads(plan_of(large, PassSet::all(), h200_machine())));
  EXPECT_FALSE(has_pads(plan_of(large, PassSet::all().without(Pass::Pad), h200_machine())));
  EXPECT_FALSE(has_pads(plan_of(large, PassSet::all(), cpu_machine(2))));
  EXPECT_FALSE(has_pads(plan_of(elman_graph(31, 31), PassSet::all(), h200_machine())));
  EXPECT_FALSE(has_pads(plan_of(elman_graph(1064, 336), PassSet::all(), h200_machine())));
}

TEST(Padding, IsSeenInTheText) {
  const std::string text = to_string(plan_of(elman_graph(1061, 333), kApart, h200_machine()));
  for (const char* line :
       {"x: f16 program temporary, chunk x 1064, the last 3 a pad, at ",
        "h: f16 program temporary, chunk x 336, the last 3 a pad, history 1, at ",
        "products of x: f32 workspace temporary, chunk x 336, at ",
        "[0:1064] @ b12^T, n 336, k 1064\n", "[t-1, 0:336] @ b10^T, n 336, k 336\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

// ---- What `verify` says of pads ----

// Which no text says. The rest: cases/padding_verify.txt.
TEST(Padding, AColumnBeforeTheFirstIsRefused) {
  Plan plan =
      padded_plan(elman_graph(7, 5), {.dtype = DType::f16, .passes = kApart.without(Pass::Reuse)});
  auto& gemm = std::get<GemmLaunch>(plan.stages[1].launches[1]);
  gemm.weight.stride = gemm.k;
  --gemm.weight.column;
  const Status status = verify(plan);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "stage 1: launch 1: columns from -1 are outside W");
}

}  // namespace
}  // namespace rnnc::test
