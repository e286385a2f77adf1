// Kernels compiled where there is no GPU.
#ifdef RNNC_WITH_CUDA
#include "runtime/program/compile_ahead.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "codegen/cuda/cuda_code.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/typical_device.h"
#include "tests/runtime/fake_gpu.h"
#include "tests/runtime/temporary_directory.h"

namespace rnnc::test {
namespace {

class CompileAhead : public testing::Test {
 protected:
  static Planner planner(const CompileOptions& options) {
    return *Planner::make(dense_recurrence(), options);
  }
  Result<CompiledAhead> compile(const Planner& of, const AheadTarget& target = {}) const {
    return compile_ahead(of, shape_, target, cache_);
  }

  const PlanShape shape_{16, 64, {}};
  const TemporaryDirectory directory_;
  const KernelCache cache_{directory_ / "cache"};
};

TEST_F(CompileAhead, FillsTheCacheWithWhatAProgramLooksFor) {
  const Planner resident = planner(resident_options());
  const Result<CompiledAhead> first = compile(resident);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->device, "NVIDIA H200");
  EXPECT_EQ(first->multiprocessors, 132);
  EXPECT_FALSE(first->cached);
  EXPECT_GT(first->bytes, 1000U);
  EXPECT_EQ(first->note, "");
  EXPECT_EQ(cache_.usage()->entries, 3);  // and NVRTC's version, and what the graph became
  // The plan that a program there makes, for which it then asks.
  const Machine machine = cuda::cuda_machine(*cuda::typical_cuda_device("sm_90"));
  const Plan plan = *resident.plan(shape_, machine, resident.choice());
  EXPECT_EQ(tiles_of(plan).size(), 1U);
  const Result<cuda::Cubin> cubin =
      cuda::compile_module(*make_cuda_module(plan, "sm_90"), "sm_90", cache_);
  ASSERT_TRUE(cubin) << cubin.error().message;
  EXPECT_TRUE(cubin->cached);
  EXPECT_EQ(cubin->code.size(), first->bytes);
  const Result<CompiledAhead> second = compile(resident);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_TRUE(second->cached);
  EXPECT_EQ(second->bytes, first->bytes);
  EXPECT_EQ(cache_.usage()->entries, 3);
}

// Both halves, as they are prepared on a device.
TEST_F(CompileAhead, FillsTheCacheForTraining) {
  const Planner resident = planner(resident_options());
  const Result<TrainingOptions> training = resident.complete({});
  ASSERT_TRUE(training) << training.error().message;
  const auto compile_halves = [&] {
    return compile_training_ahead(resident, shape_, *training, {}, cache_);
  };
  const Result<CompiledAhead> first = compile_halves();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_FALSE(first->cached);
  const Machine machine = cuda::cuda_machine(*cuda::typical_cuda_device("sm_90"));
  const Result<TrainingGraphs> graphs = resident.differentiate({}, *training, machine);
  ASSERT_TRUE(graphs) << graphs.error().message;
  size_t bytes = 0;
  for (const Graph& half : {graphs->forward, graphs->backward}) {
    const Result<Plan> plan =
        resident.at(half, training->residuals, shape_, machine).plan(resident.choice());
    ASSERT_TRUE(plan) << plan.error().message;
    const Result<cuda::Cubin> cubin =
        cuda::compile_module(*make_cuda_module(*plan, "sm_90"), "sm_90", cache_);
    ASSERT_TRUE(cubin) << cubin.error().message;
    EXPECT_TRUE(cubin->cached);
    bytes += cubin->code.size();
  }
  EXPECT_EQ(first->bytes, bytes);
  const Result<CompiledAhead> second = compile_halves();
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_TRUE(second->cached);
}

// The record of what a graph became stands for code that is there, and only for its own options.
TEST_F(CompileAhead, MakesAnewWhatIsDamaged) {
  const Planner resident = planner(resident_options());
  ASSERT_TRUE(compile(resident));
  for (const auto& entry : std::filesystem::directory_iterator(directory_ / "cache")) {
    SCOPED_TRACE(entry.path().string());
    std::filesystem::resize_file(entry.path(), entry.file_size() - 1);
    const Result<CompiledAhead> again = compile(resident);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_GT(again->bytes, 1000U);
    EXPECT_EQ(cache_.usage()->entries, 3);
    const Result<CompiledAhead> kept = compile(resident);
    ASSERT_TRUE(kept) << kept.error().message;
    EXPECT_TRUE(kept->cached);
    EXPECT_EQ(kept->bytes, again->bytes);
  }
}

TEST_F(CompileAhead, DependsOnShapeAndOptions) {
  const auto expect_new = [&](const CompileOptions& options, const PlanShape& shape) {
    const Planner other = planner(options);
    const int64_t before = cache_.usage()->entries;
    const Result<CompiledAhead> compiled = compile_ahead(other, shape, {}, cache_);
    ASSERT_TRUE(compiled) << compiled.error().message;
    EXPECT_GT(cache_.usage()->entries, before);
  };
  expect_new(resident_options(), shape_);
  expect_new(resident_options(), {17, 64, {}});
  expect_new(resident_options(), {16, 63, {}});
  expect_new(resident_options(), {16, 64, {.lengths = true}});
  expect_new(resident_options(), {16, 64, {.resets = true}});
  for (const auto& change : std::vector<std::function<void(CompileOptions&)>>{
           [](CompileOptions& to) { to.dtype = DType::f16; },
           [](CompileOptions& to) { to.chunk = 8; }, [](CompileOptions& to) { to.reverse = true; },
           [](CompileOptions& to) { to.passes = PassSet::all().without(Pass::Resident); },
           [](CompileOptions& to) { to.tile_rank = 1; },
           [](CompileOptions& to) { to.strategy = Strategy::Grid; }}) {
    CompileOptions options = resident_options();
    change(options);
    expect_new(options, shape_);
  }
}

TEST_F(CompileAhead, DependsOnTheGpu) {
  const Planner resident = planner(resident_options());
  ASSERT_TRUE(compile(resident));
  const Result<CompiledAhead> fewer = compile(resident, {"sm_90", 20});
  ASSERT_TRUE(fewer) << fewer.error().message;
  EXPECT_EQ(fewer->multiprocessors, 20);
  EXPECT_FALSE(fewer->cached);
  const Result<CompiledAhead> older = compile(resident, {"sm_80"});
  ASSERT_TRUE(older) << older.error().message;
  EXPECT_EQ(older->device, "NVIDIA A100");
  EXPECT_FALSE(older->cached);
  EXPECT_EQ(cache_.usage()->entries, 7);  // each code and its record, and NVRTC's version

  CompileOptions sparing = resident_options();
  sparing.spare_multiprocessors = 112;
  const Result<CompiledAhead> same = compile(planner(sparing));
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ(same->multiprocessors, 20);
  EXPECT_TRUE(same->cached);
  sparing.spare_multiprocessors = 132;
  EXPECT_EQ(compile(planner(sparing)).error().message,
            "spare_multiprocessors must be less than the 132 of NVIDIA H200, got 132");
}

TEST_F(CompileAhead, SaysWhatIsWrong) {
  const Planner resident = planner(resident_options());
  EXPECT_EQ(compile(resident, {"sm_75"}).error().message,
            "there is no architecture `sm_75` to compile for ahead of time; there are sm_80, "
            "sm_86, sm_89, sm_90, sm_100, sm_120");
  EXPECT_EQ(compile_ahead(resident, {0, 1, {}}, {}, cache_).error().message,
            "batch must be at least 1, got 0");
  directory_.write("cache", "a file where the cache should be");
  const Result<CompiledAhead> compiled = compile(resident);
  ASSERT_FALSE(compiled);
  EXPECT_TRUE(compiled.error().message.starts_with(
      "kernels were compiled and cannot be kept: cannot read cache directory "))
      << compiled.error().message;
}

TEST(TypicalDevices, AreOfEveryArchitecture) {
  for (const std::string& arch : supported_cuda_archs()) {
    const Result<cuda::CudaDevice> device = cuda::typical_cuda_device(arch);
    ASSERT_TRUE(device) << device.error().message;
    EXPECT_EQ(fmt::format("sm_{}{}", device->major, device->minor), arch);
    EXPECT_EQ(cuda::cuda_machine(*device).units, device->multiprocessors);
  }
}

// `rnnc explain` and `rnnc emit` plan for the same GPU.
TEST(TypicalDevices, TheH200IsThatOfTheCostModel) {
  const Machine typical = cuda::cuda_machine(*cuda::typical_cuda_device("sm_90"));
  const Machine model = h200_machine();
  EXPECT_EQ(typical.name, model.name);
  EXPECT_EQ(typical.units, model.units);
  EXPECT_EQ(typical.exact_flops, model.exact_flops);
  EXPECT_EQ(typical.tensor_flops, model.tensor_flops);
  EXPECT_EQ(typical.tf32_flops, model.tf32_flops);
  EXPECT_EQ(typical.memory_bandwidth, model.memory_bandwidth);
  EXPECT_EQ(typical.cache_bandwidth, model.cache_bandwidth);
  EXPECT_EQ(typical.cache_bytes, model.cache_bytes);
  EXPECT_EQ(typical.shared_bytes, model.shared_bytes);
  EXPECT_EQ(typical.registers, model.registers);
}

// A kernel that keeps an array for each thread where no register can be, beside one that does not.
constexpr std::string_view kLocalArrays = R"(
extern "C" __global__ void plain(float* values) { values[threadIdx.x] *= 2; }
extern "C" __global__ void local(float* values, const int* places) {
  float own[100];
  for (int i = 0; i < 100; ++i) own[i] = values[i * 32 + threadIdx.x];
  for (int i = 0; i < 100; ++i) own[places[i]] += own[places[i + 1]];
  for (int i = 0; i < 100; ++i) values[i * 32 + threadIdx.x] = own[i];
}
)";

TEST(Cubin, TellsWhatItsKernelsKeepInLocalMemory) {
  for (const std::string& arch : supported_cuda_archs()) {
    const Result<std::string> code = compile_cubin(kLocalArrays, arch);
    ASSERT_TRUE(code) << code.error().message;
    EXPECT_EQ(cuda::local_bytes(*code, "plain"), 0) << arch;
    EXPECT_EQ(cuda::local_bytes(*code, "local"), 400) << arch;
    EXPECT_EQ(cuda::local_bytes(*code, "other"), 0) << arch;
  }
}

TEST(Cubin, OfAnyBytesTellsNothingWorse) {
  const std::string code = *compile_cubin(kLocalArrays, "sm_90");
  for (size_t size = 0; size < code.size(); size += 7) {
    EXPECT_GE(cuda::local_bytes(std::string_view(code).substr(0, size), "local"), 0);
  }
  for (size_t i = 0; i < code.size(); i += 3) {
    std::string damaged = code;
    damaged[i] = static_cast<char>(~damaged[i]);
    EXPECT_GE(cuda::local_bytes(damaged, "local"), 0);
  }
}

TEST(Cubin, SpillsAreRefusedUnlessTheyAreFew) {
  EXPECT_EQ(cuda::refuse_spills(0, 0), "");
  EXPECT_EQ(cuda::refuse_spills(32, 1e-6), "");
  EXPECT_EQ(cuda::refuse_spills(40, 1e-6), "its kernel spills 40 bytes of each thread's registers");
  EXPECT_EQ(cuda::refuse_spills(40, 1e-5), "");
  EXPECT_EQ(cuda::refuse_spills(160, 1e-5),
            "its kernel spills 160 bytes of each thread's registers");
  EXPECT_EQ(cuda::doubt_spills(32, 1e-6), "");
  EXPECT_EQ(cuda::doubt_spills(40, 1e-5), "its kernel spills 40 bytes of each thread's registers");
  EXPECT_EQ(cuda::doubt_spills(40, 2e-5), "");
}

}  // namespace
}  // namespace rnnc::test
#endif
