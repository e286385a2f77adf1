// Kernels of fused launches: how launches share them, their tiles, and that they compile without a
// GPU. What they compute is tested in tests/gpu.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/cuda/cuda_code.h"
#include "codegen/cuda/fused/fused_tile.h"
#include "passes/plan/own_products.h"
#include "tests/cuda/fused_plans.h"
#include "tests/cuda/modules.h"

namespace rnnc::test {
namespace {

class CudaFused : public testing::TestWithParam<FusedCase> {};

// The architectures take turns.
TEST_P(CudaFused, Compiles) {
  static size_t turn = 0;
  const std::string arch = supported_cuda_archs()[turn++ % supported_cuda_archs().size()];
  const Plan plan = fused_plan(GetParam());
  const CudaModule module = fused_module(plan);
  ASSERT_EQ(module.kernels.size(), 1u);
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const CudaFusedShape* shape = module.fused({stage, 0});
    ASSERT_NE(shape, nullptr);
    EXPECT_EQ(shape->most_instances, GetParam().lags);
    const size_t arrays = module.of({stage, 0}).accesses.size();
    EXPECT_EQ(sizeof(CudaRows) + arrays * sizeof(CudaAccess), shape->instance_bytes);
  }
  const Result<std::string> source = emit_cuda(plan, arch);
  ASSERT_TRUE(source.has_value()) << source.error().message;
  const Result<std::string> cubin = compile_cubin(*source, arch);
  EXPECT_TRUE(cubin.has_value()) << arch << "\n" << cubin.error().message;
}

INSTANTIATE_TEST_SUITE_P(All, CudaFused, testing::ValuesIn(fused_cases()),
                         [](const auto& made) { return made.param.name; });

FusedCase recurrent(DType dtype, int64_t batch, int64_t length) {
  return {.name = "Recurrent",
          .dtype = dtype,
          .batch = batch,
          .length = length,
          .products = {{.k = length}}};
}

TEST(CudaFusedKernels, CopyAsMuchAtOnceAsAddressesAllow) {
  const auto copies = [](DType dtype, int64_t length, Placement placement) {
    FusedCase made = recurrent(dtype, 4, length);
    made.operands = placement;
    const Plan plan = fused_plan(made);
    const std::string code = fused_module(plan).source;
    const size_t at = code.find("tile.copy_lefts<");
    return code.substr(at + 16, code.find('>', at) - at - 16);
  };
  EXPECT_EQ(copies(DType::bf16, 64, Placement::Program), "16");
  EXPECT_EQ(copies(DType::bf16, 4, Placement::Program), "8");
  EXPECT_EQ(copies(DType::bf16, 6, Placement::Workspace), "4");
  EXPECT_EQ(copies(DType::bf16, 7, Placement::Program), "2");
  EXPECT_EQ(copies(DType::f32, 7, Placement::Program), "4");
  // The caller's arrays may lie anywhere.
  EXPECT_EQ(copies(DType::bf16, 64, Placement::Caller), "2");
  EXPECT_EQ(copies(DType::f32, 64, Placement::Caller), "4");
}

TEST(CudaFusedKernels, DifferentSizesDoNotShareAKernel) {
  Plan plan =
      fused_plan({.name = "Two", .batch = 2, .length = 8, .products = {{.k = 8}}, .lags = 3});
  EXPECT_EQ(fused_module(plan).kernels.size(), 1u);
  std::get<FusedLaunch>(plan.stages[1].launches[0]).products[0].k = 4;
  const std::vector<CudaFusedShape> fused = shapes<CudaFusedShape>(fused_module(plan));
  ASSERT_EQ(fused.size(), 2u);
  EXPECT_EQ(fused[0].most_instances, 2u);
  EXPECT_EQ(fused[1].most_instances, 1u);
}

// The second launch lacks the last array that the first one stores.
TEST(CudaFusedKernels, LaunchesThatDifferInStoresShareAKernel) {
  Plan plan =
      fused_plan({.name = "Two", .batch = 2, .length = 8, .products = {{.k = 8}}, .lags = 2});
  auto& second = std::get<FusedLaunch>(plan.stages[1].launches[0]);
  Kernel fewer = plan.kernels[0];
  const auto last = static_cast<uint32_t>(fewer.arguments.size() - 1);
  ASSERT_TRUE(fewer.arguments[last].written);
  fewer.arguments.pop_back();
  std::erase_if(fewer.body, [last](const Instruction& instruction) {
    return instruction.kind == Instruction::Kind::Store && instruction.argument == last;
  });
  plan.kernels.push_back(fewer);
  second.kernel = 1;
  second.accesses.pop_back();
  const CudaModule module = fused_module(plan);
  ASSERT_EQ(module.kernels.size(), 1u);
  EXPECT_EQ(module.fused({0, 0})->most_instances, 2u);
  const auto missing = [&module](size_t stage) {
    return std::ranges::count(module.of({stage, 0}).accesses, kNoBuffer, &Access::buffer);
  };
  EXPECT_EQ(missing(0), 0);
  EXPECT_EQ(missing(1), 1);
  EXPECT_EQ(module.of({0, 0}).accesses.size(), module.of({1, 0}).accesses.size());
  const size_t skipped = module.source.find("if (rnnc_is_array(");
  ASSERT_NE(skipped, std::string::npos);
  EXPECT_EQ(module.source.find("if (rnnc_is_array(", skipped + 1), std::string::npos);
  const Result<std::string> cubin = compile_cubin(*emit_cuda(plan), "sm_90");
  EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
}

struct ProductSizes {
  int64_t n = 8;
  int64_t k = 8;
  bool transposed = false;
  int64_t blocks = 1;
  int64_t repeats = 1;
  bool accumulate = false;
};

/// A Step stage with one product.
Plan product_plan(int64_t batch, const ProductSizes& sizes) {
  Plan plan = empty_plan(DType::f32, batch, 4);
  GemmLaunch gemm;
  gemm.n = sizes.n;
  gemm.k = sizes.k;
  gemm.transposed = sizes.transposed;
  gemm.blocks = sizes.blocks;
  gemm.repeats = sizes.repeats;
  gemm.accumulate = sizes.accumulate;
  gemm.left = add_buffer(plan, Extent::Batch, DType::f32, gemm.k * gemm.blocks);
  gemm.weight =
      add_buffer(plan, Extent::Invariant, DType::f32, gemm.k * gemm.n * gemm.blocks * gemm.repeats);
  gemm.out = add_buffer(plan, Extent::Batch, DType::f32, gemm.n * gemm.blocks * gemm.repeats);
  Stage stage;
  stage.domain = Domain::Step;
  stage.launches.emplace_back(gemm);
  plan.stages.push_back(std::move(stage));
  return plan;
}

TEST(CudaFusedKernels, DoProductsOfFewRows) {
  for (const bool accumulate : {false, true}) {
    Plan plan =
        product_plan(5, {.n = 24, .k = 40, .blocks = 2, .repeats = 3, .accumulate = accumulate});
    choose_own_products(plan);
    const CudaModule module = fused_module(plan);
    const auto& gemm = std::get<GemmLaunch>(plan.stages[0].launches[0]);
    ASSERT_NE(module.fused({0, 0}), nullptr);
    const std::vector<Access>& accesses = module.of({0, 0}).accesses;
    const size_t of_repeat = accumulate ? 2 : 1;
    ASSERT_EQ(accesses.size(), 3 * of_repeat + 2);
    // Loads come first, if it adds to what is there, then stores.
    for (size_t i = 0; i < 3 * of_repeat; ++i) {
      EXPECT_EQ(accesses[i].column, static_cast<int64_t>(i % 3) * 48);
      EXPECT_EQ(accesses[i].buffer, gemm.out.buffer);
    }
    EXPECT_EQ(accesses[3 * of_repeat].buffer, gemm.left.buffer);
    const Result<std::string> cubin = compile_cubin(*emit_cuda(plan), "sm_90");
    EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
  }
}

TEST(CudaFusedKernels, LeaveOtherProductsToTheLibrary) {
  const auto is_ours = [](Plan plan) {
    choose_own_products(plan);
    return fused_module(plan).fused({0, 0}) != nullptr;
  };
  EXPECT_TRUE(is_ours(product_plan(32, {})));
  EXPECT_FALSE(is_ours(product_plan(33, {})));
  EXPECT_FALSE(is_ours(product_plan(8, {.transposed = true})));
  Plan sequence = product_plan(8, {});
  sequence.stages[0].domain = Domain::Sequence;
  EXPECT_FALSE(is_ours(sequence));
}

TEST(CudaFusedKernels, RefuseWhatNoBlockHolds) {
  const Plan plan = fused_plan(
      {.name = "Huge", .length = 2, .products = {{.k = 2, .members = 300}}, .results = 300});
  const Result<std::string> source = emit_cuda(plan);
  ASSERT_FALSE(source.has_value());
  EXPECT_EQ(source.error().message,
            "one step makes 300 products and touches 307 arrays at once; on a GPU at most 256 and "
            "1000 work");
}

/// What fused.cuh asserts, and that everything is covered.
void expect_valid(const FusedTile& tile, const FusedWork& work) {
  const bool tensor_cores = work.tensor_cores();
  EXPECT_LE(tile.threads(), 256);
  EXPECT_GE(tile.gates, work.results * tile.units);
  EXPECT_GE(tile.tiles(work) * tile.units, work.segment_length);
  EXPECT_GE(tile.row_tiles(work) * tile.rows, work.batch);
  const int64_t lane_gates = 8 / tile.lane_parts;
  EXPECT_EQ(tile.gates % ((tensor_cores ? 16 : lane_gates) * tile.warp_gates), 0);
  EXPECT_EQ(tile.rows % ((tensor_cores ? 8 : 4) * tile.warp_rows), 0);
  const int64_t piece = tensor_cores ? 64 : 16 * tile.lane_parts;
  EXPECT_EQ(tile.slab_bytes % (piece * tile.warp_parts), 0);
  EXPECT_EQ(tile.slab_bytes & (tile.slab_bytes - 1), 0);
  EXPECT_LE(tile.left_slabs, tile.weight_slabs);
  EXPECT_LE(tile.weight_slabs, tile.slabs);
  EXPECT_GE(tile.left_slabs, std::min<int64_t>(2, tile.slabs));
  EXPECT_GE(tile.slabs * tile.slab_bytes, work.k_bytes(work.products[0]));
  EXPECT_LE(tile.thread_sums(), 64);
}

TEST(FusedTile, FitsEveryGpuAndCoversEverything) {
  for (const std::string arch : {"sm_80", "sm_86", "sm_90", "sm_999"}) {
    for (const auto& [dtype, tf32] : std::vector<std::pair<DType, bool>>{
             {DType::f32, false}, {DType::f32, true}, {DType::bf16, false}}) {
      for (const int64_t results : {1, 2, 3, 5, 7, 17, 64, 250, 256}) {
        for (const int64_t length : {1, 3, 100, 512, 2048}) {
          for (const int64_t k : {1, 33, 64, 500, 1024, 20000}) {
            for (const int64_t batch : {1, 7, 33, 64, 1000}) {
              FusedWork work;
              work.dtype = dtype;
              work.tf32 = tf32;
              work.batch = batch;
              work.segment_length = length;
              work.results = results;
              work.products = {{.k = k, .members = results}};
              const FusedTile tile = choose_fused_tile(work, most_shared_bytes(arch));
              expect_valid(tile, work);
              const int64_t blocks = tile.blocks_per_multiprocessor;
              EXPECT_LE(tile.shared_bytes(work.tensor_cores()),
                        (most_shared_bytes(arch) + 1024) / blocks - 1024);
            }
          }
        }
      }
    }
  }
}

// One block per multiprocessor or nearly so, where the work allows.
TEST(FusedTile, FillsTheGpu) {
  FusedWork work;
  work.dtype = DType::bf16;
  work.batch = 16;
  work.segment_length = 1024;
  work.results = 4;
  work.products = {{.k = 1024, .members = 4}};
  const int64_t room = most_shared_bytes("sm_90");
  EXPECT_EQ(choose_fused_tile(work, room).tiles(work), 128);
  work.batch = 64;
  work.segment_length = 512;
  work.products = {{.k = 512, .members = 4}};
  work.instances = 4;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    work.dtype = dtype;
    const FusedTile tile = choose_fused_tile(work, room);
    EXPECT_EQ(tile.tiles(work) * tile.row_tiles(work) * work.instances, 128);
    EXPECT_EQ(tile.units, 16);
  }
}

}  // namespace
}  // namespace rnnc::test
