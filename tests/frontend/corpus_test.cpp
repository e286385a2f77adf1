/// Replays what the fuzzer found: tests/fuzz/corpus/parser.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/frontend/try_source.h"

namespace rnnc {
namespace {

TEST(Corpus, HoldsForEveryFile) {
  const std::filesystem::path folder = RNNC_SOURCE_DIR "/tests/fuzz/corpus/parser";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    EXPECT_EQ(try_source(text.str()), "") << entry.path();
    ++count;
  }
  EXPECT_GT(count, 50);
}

}  // namespace
}  // namespace rnnc
