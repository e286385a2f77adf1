// rnnc compile, and what --tune and --strategy are for.
#include <cstdlib>
#include <regex>

#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

class Compile : public Tools {
 protected:
  static std::vector<std::string> compile(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"compile", "toy.rnn", "--dim", "I=3", "--dim", "H=8"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
};

TEST_F(Compile, UsageErrorsExitWith2) {
  EXPECT_EQ(bad(2, compile({"--tf32", "--dtype", "f16"})),
            usage_error("rnnc compile", "--tf32 is for f32 on a GPU, not for f16 on cuda"));
  EXPECT_EQ(bad(2, compile({"--device", "cuda"})),
            usage_error("rnnc compile", "unknown option `--device`"));
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"--batch", "0"}, {"--steps", "x"}, {"--multiprocessors", "0"}}) {
    EXPECT_NE(bad(2, compile(wrong)).find("--help"), std::string::npos);
  }
}

TEST_F(Compile, TuningIsForAGpu) {
  EXPECT_EQ(bad(2, {"run", "toy.rnn", "--tune"}),
            usage_error("rnnc run", "--tune is for a GPU, not for cpu"));
  EXPECT_EQ(bad(2, {"bench", "toy.rnn", "--tune"}),
            usage_error("rnnc bench", "--tune is for a GPU, not for cpu"));
  EXPECT_NE(bad(2, {"bench", "toy.rnn", "--tune", "--device", "cuda", "--tile-rank", "2"})
                .find("--tune excludes --tile-rank"),
            std::string::npos);
}

TEST_F(Compile, MostStrategiesAreForAGpu) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"run", "toy.rnn"},
                                             {"bench", "toy.rnn"},
                                             {"explain", "toy.rnn"},
                                             {"emit", "toy.rnn", "--as", "plan"}}) {
    std::vector<std::string> arguments = words;
    arguments.insert(arguments.end(), {"--strategy", "grid"});
    EXPECT_EQ(bad(2, arguments),
              usage_error("rnnc " + words[0], "--strategy grid is for a GPU, not for cpu"));
    arguments.back() = "grids";
    EXPECT_EQ(bad(2, arguments), usage_error("rnnc " + words[0],
                                             "--strategy: expected one of block, cluster, grid, "
                                             "hybrid, split-k, stacked, loop, scan, "
                                             "got `grids`"));
    EXPECT_NE(good({words[0], "--help"})
                  .find("--strategy NAME:{block,cluster,grid,hybrid,split-k,stacked,loop,scan}"),
              std::string::npos);
  }
}

#ifdef RNNC_WITH_CUDA
TEST_F(Compile, SaysWhyAStrategyCannotBe) {
  directory_.write("gated.rnn", R"(
cell Gated[H](x: [H]) -> h {
  state h: [H]
  param R: [H, H]
  h[t] = tanh(R @ h[t-1] + x[t])
}
)");
  const auto with = [](const char* command, const char* size, const char* strategy) {
    return std::vector<std::string>{command,   "gated.rnn", "--dim",      size,
                                    "--dtype", "bf16",      "--strategy", strategy};
  };
  EXPECT_EQ(bad(1, with("compile", "H=512", "block")),
            "rnnc: error: `Gated` at batch 1 cannot run with strategy `block`: recurrence h: a "
            "row takes 4 blocks "
            "of threads, which wait for each other, and may take 1 (leave the strategy out, and "
            "rnnc finds a way)\n");
  EXPECT_EQ(bad(1, compile({"--strategy", "grid"})),
            "rnnc: error: `Toy` at batch 1 cannot run with strategy `grid`: no recurrence of it "
            "is of class block "
            "or dense (leave the strategy out, and rnnc finds a way)\n");
  for (const auto& [strategy, kind] : {std::pair("block", "resident: blocks alone, "),
                                       {"cluster", "resident: clusters, "},
                                       {"grid", "resident: grid of "}}) {
    std::vector<std::string> arguments = with("explain", "H=64", strategy);
    arguments.insert(arguments.end(), {"--device", "cuda"});
    EXPECT_NE(good(arguments).find(kind), std::string::npos) << strategy;
  }
}

std::string without_times(const std::string& text) {
  return std::regex_replace(text, std::regex("[0-9]+ KB in [0-9.]+ s"), "# KB in # s");
}

TEST_F(Compile, FillsTheCacheForEachArchitecture) {
  const std::string cache = "cache   " + (directory_ / "cache").string() + "\n";
  EXPECT_EQ(without_times(good(compile({"--arch", "sm_80", "--arch", "sm_90", "--batch", "4"}))),
            "sm_80   NVIDIA A100, 108 multiprocessors: # KB in # s\n"
            "sm_90   NVIDIA H200, 132 multiprocessors: # KB in # s\n" +
                cache);
  // Kernels and what became of graphs, and NVRTC's version.
  EXPECT_NE(good({"cache"}).find("\nentries   5\n"), std::string::npos);
  EXPECT_EQ(good(compile({"--batch", "4"})),
            "sm_90   NVIDIA H200, 132 multiprocessors: in the cache already\n" + cache);
  EXPECT_EQ(without_times(good(compile({"--lengths", "--resets", "--multiprocessors", "114"}))),
            "sm_90   NVIDIA H200, 114 multiprocessors: # KB in # s\n" + cache);
  EXPECT_NE(good({"cache"}).find("\nentries   7\n"), std::string::npos);
}

// The backward half has weight gradients beside its recurrence: another module.
TEST_F(Compile, FillsTheCacheForTraining) {
  const std::string cache = "cache   " + (directory_ / "cache").string() + "\n";
  EXPECT_EQ(without_times(good(compile({"--backward", "--batch", "4"}))),
            "sm_90   NVIDIA H200, 132 multiprocessors: # KB in # s\n" + cache);
  // Two modules, and NVRTC's version.
  EXPECT_NE(good({"cache"}).find("\nentries   3\n"), std::string::npos);
  EXPECT_EQ(good(compile({"--backward", "--batch", "4"})),
            "sm_90   NVIDIA H200, 132 multiprocessors: in the cache already\n" + cache);
  EXPECT_EQ(rnnc(compile({"--residuals", "least"})).exit_code, 2);
}

TEST_F(Compile, LoadsNoCompilerForWhatIsInTheCache) {
  const auto loads_nvrtc = [this] {
    ::setenv("LD_DEBUG", "files", 1);
    const CommandResult result = rnnc(compile({}));
    ::unsetenv("LD_DEBUG");
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_NE(result.errors.find("calling init: "), std::string::npos);
    return std::regex_search(result.errors, std::regex("calling init: [^\n]*libnvrtc"));
  };
  EXPECT_TRUE(loads_nvrtc());
  EXPECT_FALSE(loads_nvrtc());
}

TEST_F(Compile, SaysWhatItCannotCompile) {
  EXPECT_EQ(bad(1, compile({"--arch", "sm_75"})),
            "rnnc: error: there is no architecture `sm_75` to compile for ahead of time; there are "
            "sm_80, sm_86, sm_89, sm_90, sm_100, sm_120\n");
  EXPECT_EQ(bad(1, compile({"--dtype", "f64"})),
            "rnnc: error: dtype f64 runs on the CPU only; cuda:0 takes f32, bf16 and f16\n");
  EXPECT_EQ(bad(1, {"compile", "toy.rnn", "--dim", "I=3"}),
            "rnnc: error: Toy: no value for dim `H`\n  give each with --dim NAME=NUMBER\n");
  directory_.write("cache", "a file where the cache should be");
  EXPECT_NE(bad(1, compile({}))
                .find("kernels were compiled and cannot be kept: cannot read cache directory "),
            std::string::npos);
}
#else
TEST_F(Compile, NeedsTheCudaBackend) {
  EXPECT_EQ(bad(1, compile({})), "rnnc: error: this build of rnnc has no CUDA backend\n");
}
#endif

}  // namespace
}  // namespace rnnc::test
