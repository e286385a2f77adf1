// What the generated code looks like, and what is refused.
#include <gtest/gtest.h>

#include <regex>

#include "codegen/cpu/cpu_code.h"
#include "passes/build_plan.h"
#include "passes/graph/pipeline.h"
#include "tests/cpu/kernel_runner.h"
#include "tests/cpu/program_run.h"

namespace rnnc::test {
namespace {

Plan lstm_plan(DType dtype) {
  Graph graph = example_graph("lstm.rnn", "LSTM", {{"I", 80}, {"H", 300}});
  RNNC_CHECK(run_pipeline(graph).has_value(), "the pipeline");
  auto plan = build_plan(graph, {.dtype = dtype, .batch = 16, .max_steps = 32});
  RNNC_CHECK(plan.has_value(), "{}", plan.error().message);
  return *plan;
}

/// How often `pattern` occurs.
int64_t count(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return std::distance(std::sregex_iterator(text.begin(), text.end(), regex),
                       std::sregex_iterator());
}

TEST(GeneratedCode, OfTheLstmIsPackedAndCallsNothing) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto assembly = emit_assembly(lstm_plan(dtype));
    ASSERT_TRUE(assembly.has_value()) << assembly.error().message;
    EXPECT_EQ(count(*assembly, R"(\n\s+call)"), 0) << *assembly;
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("fma")) continue;
    const std::string suffix = dtype == DType::f32 ? "ps" : "pd";
    EXPECT_GT(count(*assembly, R"(vfn?m(add|sub)\d+)" + suffix + ".*%[yz]mm"), 50);
    EXPECT_EQ(count(*assembly, R"(vfn?m(add|sub)\d+s[sd])"), 0);
    EXPECT_GT(count(*assembly, "vdiv" + suffix + ".*%[yz]mm"), 0);
    EXPECT_EQ(count(*assembly, R"(vdivs[sd])"), 0);
#endif
  }
}

TEST(GeneratedCode, AsksForLaterRowsWhereProductsCameFirst) {
  Plan plan = lstm_plan(DType::f32);
  const auto kernels_ask = [&] {
    return (*CpuKernels::emit(plan))->text().find("call void @llvm.prefetch") != std::string::npos;
  };
  EXPECT_TRUE(kernels_ask());
  plan.stages.clear();  // without launches no distance between rows is known
  EXPECT_FALSE(kernels_ask());
}

TEST(GeneratedCode, IrNamesNothingOfTheUsers) {
  Plan plan = lstm_plan(DType::f32);
  for (Kernel& kernel : plan.kernels) kernel.name = "asm volatile \"int\" \n}";
  const auto ir = emit_llvm(plan);
  ASSERT_TRUE(ir.has_value());
  EXPECT_EQ(ir->find("volatile"), std::string::npos);
  EXPECT_NE(ir->find("define void @kernel_0("), std::string::npos);
  EXPECT_NE(ir->find("define void @gemm_tile_1x4("), std::string::npos);
}

TEST(GeneratedCode, FitsTheLevel) {
  const Plan plan = lstm_plan(DType::f32);
  const std::string avx2 = *emit_assembly(plan, {.level = CpuLevel::Avx2});
  EXPECT_EQ(count(avx2, "%zmm"), 0);
  const std::string baseline = *emit_assembly(plan, {.level = CpuLevel::Baseline});
  EXPECT_EQ(count(baseline, "%[yz]mm"), 0);
#if defined(__x86_64__)
  EXPECT_GT(count(avx2, R"(vfmadd\d+ps.*%ymm)"), 50);
  EXPECT_GT(count(baseline, R"(mulps.*%xmm)"), 50);
  // Sums of a tile stay in registers: nothing is spilled inside the loop over k.
  for (const std::string& code : {*emit_assembly(plan), avx2, baseline}) {
    for (size_t at = code.find("gemm_tile_"); at != std::string::npos;
         at = code.find("\ngemm_tile_", at + 1)) {
      const size_t loop = code.find("\n.LBB", at);
      const size_t end = code.find("\n\tj", loop);
      ASSERT_NE(end, std::string::npos);
      EXPECT_EQ(code.substr(loop, end - loop).find("(%rsp)"), std::string::npos)
          << code.substr(loop, end - loop);
    }
  }
#endif
}

TEST(GeneratedCode, IsTheSameEveryTime) {
  const Plan plan = lstm_plan(DType::f32);
  EXPECT_EQ(*emit_llvm(plan), *emit_llvm(plan));
  EXPECT_EQ(*compile_object(plan), *compile_object(plan));
  EXPECT_EQ(*compile_gemm_object(DType::f32), *compile_gemm_object(DType::f32));
}

TEST(GeneratedCode, PlansWithoutProductsHaveNoTiles) {
  KernelMaker maker(4, DType::f32);
  maker.store(maker.load(true), true);
  Plan plan;
  plan.kernels.push_back(maker.kernel);
  EXPECT_EQ(emit_llvm(plan)->find("gemm_tile"), std::string::npos);
  auto module = CpuModule::load(plan, *compile_object(plan), "");
  ASSERT_TRUE(module.has_value());
  EXPECT_TRUE((*module)->gemm().tiles[0].empty());
}

TEST(GeneratedCode, SixteenBitTypesAreRefused) {
  Plan plan;
  plan.dtype = DType::bf16;
  for (const auto& result : {emit_llvm(plan), emit_assembly(plan), compile_object(plan),
                             compile_gemm_object(DType::bf16)}) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().message, "the CPU runs f32 and f64, not bf16");
  }
}

TEST(GeneratedCode, DamagedObjectIsAnError) {
  const Plan plan = lstm_plan(DType::f32);
  const std::string object = *compile_object(plan);
  const std::string tiles = *compile_gemm_object(plan.dtype);
  ASSERT_TRUE(CpuModule::load(plan, object, tiles).has_value());
  for (const std::string& damaged :
       {std::string(), std::string("not an object"), object.substr(0, object.size() / 2)}) {
    EXPECT_FALSE(CpuModule::load(plan, damaged, tiles).has_value());
    EXPECT_FALSE(CpuModule::load(plan, object, damaged).has_value());
  }
}

}  // namespace
}  // namespace rnnc::test
