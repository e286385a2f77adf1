// Which vectors code has: what is fast on processors by CPUID, and what was asked for.
#include "codegen/cpu/vector_bits.h"

#include <gtest/gtest.h>

#include "codegen/cpu/cpu_code.h"
#include "runtime/program/program.h"
#include "tests/cpu/program_run.h"

namespace rnnc::test {
namespace {

VectorBits bits_of(std::string_view name, std::string_view brand = "") {
  return fast_vector_bits({.name = name, .brand = brand, .avx512 = true, .avx2 = true});
}

TEST(VectorBits, AreWideWithAvx512) {
  for (const char* name : {"skylake-avx512", "cascadelake", "cooperlake", "icelake-server",
                           "icelake-client", "tigerlake", "rocketlake", "sapphirerapids",
                           "emeraldrapids", "graniterapids", "znver4", "znver5", "not known yet"}) {
    EXPECT_EQ(bits_of(name), (VectorBits{512, 512})) << name;
  }
}

TEST(VectorBits, AreNarrowerWhereThereIsOneWideUnitAtALowerClock) {
  const VectorBits narrow = {256, 256};
  EXPECT_EQ(bits_of("skylake-avx512", "Intel(R) Xeon(R) Silver 4114 CPU @ 2.20GHz"), narrow);
  EXPECT_EQ(bits_of("skylake-avx512", "Intel(R) Xeon(R) Bronze 3104 CPU @ 1.70GHz"), narrow);
  EXPECT_EQ(bits_of("cascadelake", "Intel(R) Xeon(R) Gold 5218 CPU @ 2.30GHz"), narrow);
  const VectorBits wide = {512, 512};
  EXPECT_EQ(bits_of("cascadelake", "Intel(R) Xeon(R) Gold 5222 CPU @ 3.80GHz"), wide);
  EXPECT_EQ(bits_of("cascadelake", "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz"), wide);
  EXPECT_EQ(bits_of("cascadelake", "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz"), wide);
  EXPECT_EQ(bits_of("icelake-server", "Intel(R) Xeon(R) Silver 4310 CPU @ 2.10GHz"), wide);
  EXPECT_EQ(bits_of("sapphirerapids", "Intel(R) Xeon(R) Gold 5412U"), wide);
}

TEST(VectorBits, WithoutAvx512) {
  EXPECT_EQ(fast_vector_bits({.name = "haswell", .avx2 = true}), (VectorBits{256, 256}));
  EXPECT_EQ(fast_vector_bits({.name = "nehalem"}), (VectorBits{128, 128}));
}

TEST(VectorBits, AreParsed) {
  EXPECT_EQ(parse_vector_bits("256").value(), (VectorBits{256, 256}));
  EXPECT_EQ(parse_vector_bits("512,128").value(), (VectorBits{512, 128}));
  for (const char* text : {"", "0", "64", "512,", ",512", "512,0", "512,256,128", "512 256", "1e2",
                           "-256", "99999999999999999999"}) {
    const auto bits = parse_vector_bits(text);
    ASSERT_FALSE(bits.has_value()) << text;
    EXPECT_EQ(bits.error().message,
              fmt::format("vectors have 128, 256 or 512 bits, those of products before those of "
                          "elementwise work if they differ (`512,256`), not `{}`",
                          text));
  }
}

TEST(VectorBits, LevelsAreParsed) {
  for (const CpuLevel level : {CpuLevel::Host, CpuLevel::Avx2, CpuLevel::Baseline}) {
    EXPECT_EQ(parse_cpu_level(to_string(level)).value(), level);
  }
  EXPECT_EQ(parse_cpu_level("sse").error().message,
            "a CPU level is `host`, `avx2` or `baseline`, not `sse`");
}

#if defined(__x86_64__)

TEST(VectorBits, ThatALevelLacksAreRefused) {
  const auto message = [](const CpuTarget& target) {
    const Status status = check_target(target);
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(message({CpuLevel::Baseline, {256, 256}}),
            "x86-64 has no 256-bit vectors: at most 128 bits");
  EXPECT_EQ(message({CpuLevel::Avx2, {512, 256}}),
            "x86-64-v3 has no 512-bit vectors: at most 256 bits");
  EXPECT_EQ(message({CpuLevel::Avx2, {128, 256}}),
            "vectors of elementwise work (256 bits) are at most as wide as those of products "
            "(128 bits)");
  EXPECT_EQ(message({CpuLevel::Avx2, {256, 128}}), "");
}

TEST(VectorBits, AreNamed) {
  EXPECT_EQ(target_summary({.level = CpuLevel::Avx2}), "x86-64-v3, 256-bit vectors");
  EXPECT_EQ(target_summary({CpuLevel::Avx2, {256, 128}}),
            "x86-64-v3, 256-bit vectors for products, 128-bit ones for elementwise work");
  EXPECT_NE(target_description({CpuLevel::Avx2, {256, 128}}),
            target_description({.level = CpuLevel::Avx2}));
}

TEST(VectorBits, OfAProgramAreRefusedWhereTheyCannotRun) {
  const Graph graph = example_graph("lstm.rnn", "LSTM", {{"I", 3}, {"H", 5}});
  const auto program = Program::compile(graph, {.cpu = {CpuLevel::Baseline, {512, 512}}});
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().message, "x86-64 has no 512-bit vectors: at most 128 bits");
}

#endif

}  // namespace
}  // namespace rnnc::test
