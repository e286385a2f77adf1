// --cpu-level and --vector-bits: what code may use, and how wide its vectors are.
#include "tests/tools/tools_test.h"

#ifdef RNNC_WITH_CPU

namespace rnnc::test {
namespace {

using Vectors = Tools;

/// For a command that takes toy.rnn.
const std::vector<std::vector<std::string>> kCommands = {{"run", "toy.rnn"},
                                                         {"bench", "toy.rnn"},
                                                         {"explain", "toy.rnn"},
                                                         {"emit", "toy.rnn", "--as", "llvm"}};

std::vector<std::string> with(std::vector<std::string> words,
                              const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(Vectors, ThatThereAreNoneOfAreUsageErrors) {
  for (const auto& words : kCommands) {
    EXPECT_NE(bad(2, with(words, {"--vector-bits", "64"})).find("not `64`"), std::string::npos);
    EXPECT_NE(bad(2, with(words, {"--vector-bits", "\x1b[31m"})).find("not `\\x1b[31m`"),
              std::string::npos);
    EXPECT_NE(
        bad(2, with(words, {"--cpu-level", "sse9"})).find("expected one of host, avx2, baseline"),
        std::string::npos);
#if defined(__x86_64__)
    EXPECT_NE(bad(2, with(words, {"--cpu-level", "avx2", "--vector-bits", "512"}))
                  .find("x86-64-v3 has no 512-bit vectors: at most 256 bits"),
              std::string::npos);
#endif
  }
}

TEST_F(Vectors, AreForTheCpu) {
  for (const auto& words : kCommands) {
    if (words[0] == "emit") continue;
    EXPECT_NE(bad(2, with(words, {"--device", "cuda", "--vector-bits", "128"}))
                  .find("--vector-bits is for the CPU, not for cuda"),
              std::string::npos);
    EXPECT_NE(bad(2, with(words, {"--device", "cuda", "--cpu-level", "avx2"}))
                  .find("--cpu-level is for the CPU, not for cuda"),
              std::string::npos);
  }
}

TEST_F(Vectors, AreNamed) {
  const std::string devices = good({"devices"});
  EXPECT_NE(devices.find("-bit vectors"), std::string::npos) << devices;
#if defined(__x86_64__)
  EXPECT_NE(good({"explain", "toy.rnn", "--dim", "I=3", "--dim", "H=4", "--cpu-level", "avx2"})
                .find("CPU (x86-64-v3, 256-bit vectors)"),
            std::string::npos);
  EXPECT_NE(good({"emit", "toy.rnn", "--dim", "I=3", "--dim", "H=40", "--as", "llvm", "--cpu-level",
                  "avx2", "--vector-bits", "256,128"})
                .find("<4 x float>"),
            std::string::npos);
#endif
}

TEST_F(Vectors, OfEachWidthGiveTheSameResults) {
  write_array("x.npy", {5, 2, 3}, std::vector<double>(30, 0.25));
  const std::vector<std::string> words = {"run",     "toy.rnn", "--dim",    "H=40",
                                          "--dtype", "f64",     "--seed",   "7",
                                          "--input", "x=x.npy", "--output", "h=h.npy"};
  good(words);
  const std::vector<double> expected = read_array("h.npy").to_doubles();
  const std::vector<std::vector<std::string>> choices = {{"--vector-bits", "128"},
                                                         {"--cpu-level", "baseline"}};
  for (const auto& choice : choices) {
    good(with(words, choice));
    const std::vector<double> values = read_array("h.npy").to_doubles();
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-13);
  }
}

}  // namespace
}  // namespace rnnc::test

#endif
