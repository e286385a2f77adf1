// Generated code compiles for every architecture, without a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "codegen/cuda/cuda_code.h"
#include "codegen/cuda/nvrtc/shared_library.h"
#include "ir/base/launch_limits.h"
#include "ir/plan/kernel_facts.h"
#include "passes/build_plan.h"
#include "tests/cuda/kernel_plans.h"
#include "tests/runtime/temporary_directory.h"
#include "tests/support/cells/networks.h"

namespace rnnc::test {
namespace {

/// Every op in every type.
std::string every_op() {
  Plan plan = empty_plan(DType::f32);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    plan.dtype = dtype;
    add_every_op(plan, 300);
  }
  const Result<std::string> source = emit_cuda(plan);
  EXPECT_TRUE(source.has_value());
  return *source;
}

class NvrtcArchs : public testing::TestWithParam<std::string> {};

TEST_P(NvrtcArchs, CompilesEveryOpInEveryType) {
  const Result<std::string> cubin = compile_cubin(every_op(), GetParam());
  ASSERT_TRUE(cubin.has_value()) << cubin.error().message;
  EXPECT_TRUE(
      cubin->starts_with("\x7f"
                         "ELF"));
}

TEST_P(NvrtcArchs, CompilesPackets) {
  Plan plan = empty_plan(DType::f32);
  Stage stage;
  uint32_t slot = 0;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    plan.dtype = dtype;
    for (const int64_t length : {1 << 17, (1 << 17) + 2, (1 << 20) + 1}) {
      KernelBuilder builder(plan, length);
      const uint32_t x = builder.load(add_sequence(plan, Role::Input, slot, length), true);
      const uint32_t y = builder.scalar(Op::Tanh, {x});
      builder.store(add_sequence(plan, Role::Output, slot++, length), true, y);
      stage.launches.emplace_back(builder.finish());
    }
  }
  plan.stages.push_back(std::move(stage));
  const std::string source = emit_cuda(plan).value();
  EXPECT_NE(source.find("rnnc_packet<rnnc_f16, 4, Aligned>"), std::string::npos);
  EXPECT_NE(source.find("rnnc_packet<rnnc_bf16, 2, Aligned>"), std::string::npos);
  EXPECT_NE(source.find("float l0[8];"), std::string::npos);
  const Result<std::string> cubin = compile_cubin(source, GetParam());
  EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
}

INSTANTIATE_TEST_SUITE_P(All, NvrtcArchs, testing::ValuesIn(supported_cuda_archs()),
                         [](const auto& arch) { return arch.param; });

TEST(Nvrtc, GivesPtx) {
  Plan plan = empty_plan(DType::f16);
  add_every_op(plan, 300);
  const Result<std::string> ptx = compile_ptx(*emit_cuda(plan), "sm_80");
  ASSERT_TRUE(ptx.has_value()) << ptx.error().message;
  EXPECT_NE(ptx->find(".target sm_80"), std::string::npos);
  EXPECT_NE(ptx->find(".entry k0"), std::string::npos);
  EXPECT_NE(ptx->back(), '\0');
}

TEST(Nvrtc, LongRowsCompile) {
  Plan plan = empty_plan(DType::f32);
  add_every_op(plan, 100'000);
  const Result<std::string> cubin = compile_cubin(*emit_cuda(plan), "sm_90");
  EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
}

TEST(Nvrtc, SaysItsVersion) {
  const Result<std::string> version = nvrtc_version();
  ASSERT_TRUE(version.has_value()) << version.error().message;
  EXPECT_TRUE(version->starts_with("13.")) << *version;
}

TEST(Nvrtc, SaysWhereItIs) {
  const Result<NvrtcFile> file = nvrtc_file();
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->version, nvrtc_version().value());
  EXPECT_TRUE(std::filesystem::is_regular_file(file->path)) << file->path;
  EXPECT_TRUE(nvrtc_is_loaded());
  const std::vector<std::string> places = nvrtc_places();
  EXPECT_NE(std::ranges::find(places, "/etc/ld.so.cache"), places.end());
  EXPECT_NE(std::ranges::find(places, "/usr/lib/libnvrtc.so.13"), places.end());
}

TEST(SharedLibrary, ThatIsNotThereIsNotOpen) {
  EXPECT_FALSE(SharedLibrary::is_open("libnothing.so.13"));
}

TEST(Nvrtc, RefusesUnknownArchitectures) {
  for (const std::string arch : {"sm_75", "sm_90a", "sm_999", "sm_", "90", "gpu", ""}) {
    const Result<std::string> cubin = compile_cubin("", arch);
    ASSERT_FALSE(cubin.has_value());
    EXPECT_TRUE(cubin.error().message.starts_with("cannot compile for `" + arch + "`; NVRTC 13."))
        << cubin.error().message;
    EXPECT_NE(cubin.error().message.find("sm_80, sm_86"), std::string::npos);
    EXPECT_EQ(cubin.error().message.find("sm_75,"), std::string::npos);
  }
}

TEST(Nvrtc, TakesAsManyParametersAsKernelsMayHave) {
  const auto compiles = [](int64_t bytes) {
    const std::string source = fmt::format(
        "struct parameters {{ unsigned word[{}]; }};\n"
        "extern \"C\" __global__ void k(const __grid_constant__ parameters p, unsigned* out) {{\n"
        "  *out = p.word[threadIdx.x];\n"
        "}}\n",
        (bytes - static_cast<int64_t>(sizeof(void*))) / 4);
    return compile_cubin(source, "sm_80").has_value();
  };
  EXPECT_TRUE(compiles(kMostParameterBytes - 4));  // the pointer is aligned
  EXPECT_FALSE(compiles(kMostParameterBytes + 4));
}

TEST(Nvrtc, CompilesAStackOfAlmostTooManyArrays) {
  const Graph stack = tower(std::vector<std::string>(14, "Many"), 8);
  const Result<Plan> plan =
      build_plan(stack, {.dtype = DType::bf16, .max_steps = 64, .machine = h200_machine()});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const auto resident = std::ranges::find_if(plan->stages, is_resident);
  ASSERT_NE(resident, plan->stages.end());
  const auto& launch = std::get<RecurrenceLaunch>(resident->launches[0]);
  EXPECT_EQ(launch.tile.sides.size(), 14U);
  EXPECT_GT(count_arrays(*plan, launch.phases, launch.tile.sides.size()), kMostArrays - 60);
  const Result<std::string> cubin = compile_cubin(emit_cuda(*plan).value(), kDefaultCudaArch);
  EXPECT_TRUE(cubin.has_value()) << cubin.error().message;
}

TEST(Nvrtc, PicksTheArchitectureOfADevice) {
  EXPECT_EQ(cuda_arch_for(9, 0).value(), "sm_90");
  EXPECT_EQ(cuda_arch_for(8, 9).value(), "sm_89");
  // No compiler knows 8.5, but code for 8.0 runs on it.
  EXPECT_EQ(cuda_arch_for(8, 5).value(), "sm_80");
  const Result<std::string> old = cuda_arch_for(7, 5);
  ASSERT_FALSE(old.has_value());
  EXPECT_EQ(old.error().message,
            "its architecture, sm_75, is too old; rnnc needs sm_80 (Ampere) or newer");
  const Result<std::string> future = cuda_arch_for(99, 0);
  ASSERT_FALSE(future.has_value());
  EXPECT_TRUE(
      future.error().message.starts_with("its architecture, sm_990, is newer than NVRTC 13."))
      << future.error().message;
}

TEST(Nvrtc, GivesTheCompilersLog) {
  const Result<std::string> cubin = compile_cubin("void f() { undefined_name; }", "sm_90");
  ASSERT_FALSE(cubin.has_value());
  EXPECT_NE(cubin.error().message.find("did not compile generated code for sm_90"),
            std::string::npos)
      << cubin.error().message;
  EXPECT_NE(cubin.error().message.find("undefined_name"), std::string::npos)
      << cubin.error().message;
}

TEST(SharedLibrary, SaysHowToGetWhatIsMissing) {
  const Result<SharedLibrary> library = SharedLibrary::open("libnothing.so.13", "Nothing 13");
  ASSERT_FALSE(library.has_value());
  const std::string& message = library.error().message;
  EXPECT_TRUE(message.starts_with("Nothing 13 cannot be loaded (libnothing.so.13: ")) << message;
  EXPECT_NE(message.find("pip install"), std::string::npos) << message;
}

TEST(SharedLibrary, IsFoundInFoldersThatAreAdded) {
  const std::string name = "libadded.so.13";
  const Result<NvrtcFile> file = nvrtc_file();
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const TemporaryDirectory directory;
  std::filesystem::create_symlink(file->path, directory.path() / name);
  EXPECT_FALSE(SharedLibrary::open(name, "Added 13").has_value());
  for (int times = 0; times < 2; ++times) SharedLibrary::add_folder(directory.path());
  const std::vector<std::string> places = SharedLibrary::places(name);
  EXPECT_EQ(std::ranges::count(places, (directory.path() / name).string()), 1);
  const Result<SharedLibrary> library = SharedLibrary::open(name, "Added 13");
  ASSERT_TRUE(library.has_value()) << library.error().message;
  EXPECT_EQ(library->path(), file->path);
}

TEST(SharedLibrary, NamesMissingFunctions) {
  const Result<SharedLibrary> library = SharedLibrary::open("libnvrtc.so.13", "NVRTC 13");
  ASSERT_TRUE(library.has_value()) << library.error().message;
  void (*function)() = nullptr;
  const Status found = library->find("nvrtcNothing", function);
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().message, "libnvrtc.so.13 has no function nvrtcNothing");
}

}  // namespace
}  // namespace rnnc::test
