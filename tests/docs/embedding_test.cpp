// README's example of the C++ API compiles as it stands; the build takes it from there.
#include <gtest/gtest.h>

#include <cstdio>
#include <span>
#include <string>

#include "frontend/unit.h"
#include "runtime/program/program.h"

namespace rnnc::test {
namespace {

/// What the example leaves to the reader.
int embed(const std::string& text, std::span<const void* const> inputs,
          std::span<const void* const> params, std::span<void* const> outputs, void* workspace,
          Stream stream) {
#include "readme_example.inc"
  return program.has_value() && bytes > 0 ? 0 : 1;
}

TEST(Embedding, TellsWhatIsWrongWithACell) {
  EXPECT_EQ(embed("cell LSTM", {}, {}, {}, nullptr, nullptr), 1);
}

}  // namespace
}  // namespace rnnc::test
