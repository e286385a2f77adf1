#include <sys/wait.h>

#include <cstdlib>

#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

TEST_F(Tools, EmitPrintsEveryStage) {
  const auto starts = [&](const std::string& form, const std::string& text) {
    const std::string output =
        good({"emit", "toy.rnn", "--as", form, "--dim", "I=3", "--dim", "H=4"});
    EXPECT_NE(output.find(text), std::string::npos) << form << ":\n" << output.substr(0, 300);
    EXPECT_TRUE(output.ends_with('\n')) << form;
  };
  starts("ast", "cell Toy[I, H](x: [I]) -> h {");
  starts("graph", "graph Toy() {\n  input x: [3]\n");
  starts("dot", "digraph");
  starts("plan", "plan Toy: f32, batch 1, chunk ");
#ifdef RNNC_WITH_CPU
  starts("llvm", "define ");
  starts("asm", ".text");
#endif
#ifdef RNNC_WITH_CUDA
  starts("cuda", "__global__");
#endif
}

TEST_F(Tools, EmitKeepsSymbolsUntilThePlan) {
  EXPECT_EQ(good({"emit", "toy.rnn", "--as", "graph"}).substr(0, 34),
            "graph Toy(I, H) {\n  input x: [I]\n ");
  EXPECT_EQ(bad(1, {"emit", "toy.rnn", "--as", "plan", "--dim", "I=3"}),
            "rnnc: error: Toy: no value for dim `H`\n  give each with --dim NAME=NUMBER\n");
}

TEST_F(Tools, EmitTakesTypeBatchAndSteps) {
  const std::string plan = good({"emit", "toy.rnn", "--as", "plan", "--dim", "I=3", "--dim", "H=4",
                                 "--dtype", "f64", "--batch", "5", "--steps", "3"});
  EXPECT_EQ(plan.substr(0, plan.find('\n')), "plan Toy: f64, batch 5, chunk 3");
}

TEST_F(Tools, EmitRoundsToTf32OnlyForAGpu) {
  const std::vector<std::string> plan = {"emit", "toy.rnn", "--as",   "plan",  "--dim",
                                         "I=3",  "--dim",   "H=1024", "--tf32"};
  const auto with = [&](std::vector<std::string> others) {
    others.insert(others.begin(), plan.begin(), plan.end());
    return others;
  };
  const std::string rounded = good(with({"--device", "cuda"}));
  EXPECT_EQ(rounded.substr(0, rounded.find(',')), "plan Toy: f32 with products in TF32");
  const std::string problem = "--tf32 is for f32 on a GPU, not for f32 on cpu";
  EXPECT_NE(bad(2, plan).find(problem), std::string::npos);
}

TEST_F(Tools, EmitWritesWholeFilesOrNone) {
  EXPECT_EQ(good({"emit", "toy.rnn", "--as", "graph", "-o", "toy.graph"}), "");
  EXPECT_EQ(TemporaryDirectory::read(directory_ / "toy.graph"),
            good({"emit", "toy.rnn", "--as", "graph"}));
  const std::vector<std::string> before = directory_.list();
  EXPECT_EQ(bad(1, {"emit", "toy.rnn", "--as", "graph", "-o", "no/place"}),
            "rnnc: error: cannot write `no/place`: `no`: No such file or directory\n");
  EXPECT_EQ(bad(1, {"emit", "toy.rnn", "--as", "graph", "-o", "."}),
            "rnnc: error: cannot write `.`: it is a directory\n");
  EXPECT_EQ(bad(1, {"emit", "toy.rnn", "--as", "plan", "-o", "plan.txt"}),
            "rnnc: error: Toy: no value for dims `I`, `H`\n  give each with --dim NAME=NUMBER\n");
  EXPECT_EQ(directory_.list(), before);
}

TEST_F(Tools, EmitRefusesTypesWithoutCode) {
  const std::vector<std::string> dims = {"--dim", "I=3", "--dim", "H=4"};
  const auto emit = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), dims.begin(), dims.end());
    return bad(1, arguments);
  };
#ifdef RNNC_WITH_CPU
  EXPECT_EQ(emit({"emit", "toy.rnn", "--as", "llvm", "--dtype", "bf16"}),
            "rnnc: error: the CPU has no code for dtype bf16; it takes f32 and f64\n");
#else
  EXPECT_EQ(emit({"emit", "toy.rnn", "--as", "llvm"}),
            "rnnc: error: this build of rnnc has no CPU backend\n");
#endif
#ifdef RNNC_WITH_CUDA
  EXPECT_EQ(emit({"emit", "toy.rnn", "--as", "cuda", "--dtype", "f64"}),
            "rnnc: error: CUDA has no code for dtype f64; it takes f32, bf16 and f16\n");
#else
  EXPECT_EQ(emit({"emit", "toy.rnn", "--as", "cuda"}),
            "rnnc: error: this build of rnnc has no CUDA backend\n");
#endif
}

TEST_F(Tools, ALimitOfFileSizesIsNoSignal) {
  const std::string command = fmt::format(
      "cd '{}' && ulimit -f 4 && exec '{}/tools/rnnc' explain toy.rnn --json --dim I=3 --dim H=4 "
      "> page 2> errors",
      directory_.path().string(), RNNC_BINARY_DIR);
  const int status = std::system(command.c_str());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
  EXPECT_EQ(TemporaryDirectory::read(directory_ / "errors"),
            "rnnc: error: cannot write to standard output\n");
}

TEST_F(Tools, EmitCubinNeedsAFile) {
  EXPECT_EQ(bad(2, {"emit", "toy.rnn", "--as", "cubin", "--dim", "I=3", "--dim", "H=4"}),
            usage_error("rnnc emit", "--as cubin: its bytes are not text: give -o FILE"));
}

#ifdef RNNC_WITH_CUDA
TEST_F(Tools, EmitCompilesForAnArchitecture) {
  const std::vector<std::string> ptx = {"emit", "toy.rnn", "--as", "ptx",    "--dim",
                                        "I=3",  "--dim",   "H=4",  "--arch", "sm_80"};
  const CommandResult result = rnnc(ptx);
  if (result.errors.find("NVRTC") != std::string::npos) GTEST_SKIP() << result.errors;
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find(".target sm_80"), std::string::npos);
  good({"emit", "toy.rnn", "--as", "cubin", "--dim", "I=3", "--dim", "H=4", "-o", "toy.cubin"});
  EXPECT_EQ(TemporaryDirectory::read(directory_ / "toy.cubin").substr(1, 3), "ELF");
}
#endif

}  // namespace
}  // namespace rnnc::test
