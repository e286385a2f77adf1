// README's example of C++ compiles as it stands; the build takes it from there.
#include <gtest/gtest.h>

#include <string>

#include "runtime/capi/rnnc.hpp"

namespace {

/// What the example leaves to the reader.
void embed(const std::string& text, const void* const* inputs, const void* const* params,
           void* const* outputs, void* workspace, void* stream) {
#include "readme_example.inc"
}

TEST(Embedding, TellsWhatIsWrongWithACell) {
  EXPECT_THROW(embed("cell LSTM", nullptr, nullptr, nullptr, nullptr, nullptr), rnnc::Error);
}

}  // namespace
