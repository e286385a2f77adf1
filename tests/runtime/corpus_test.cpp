/// Everything that the fuzzers have found worth keeping, read once more. That nothing crashes is
/// most of the test; the rest is that an answer is an array or a reason.
#include <gtest/gtest.h>

#include "runtime/arrays/npy.h"
#include "runtime/arrays/npz.h"
#include "runtime/arrays/safetensors.h"
#include "runtime/weights/weight_map.h"
#include "tests/runtime/temporary_directory.h"

namespace rnnc {
namespace {

/// Calls `parse` with the bytes of every file of a corpus; it says whether it accepted them.
template <typename Parse>
void replay(std::string_view corpus, Parse parse) {
  int accepted = 0;
  int rejected = 0;
  const std::filesystem::path place = std::filesystem::path(RNNC_SOURCE_DIR) / "tests/fuzz/corpus";
  for (const auto& file : std::filesystem::directory_iterator(place / corpus)) {
    SCOPED_TRACE(file.path().string());
    ++(parse(test::TemporaryDirectory::read(file.path())) ? accepted : rejected);
  }
  EXPECT_GT(accepted, 5);
  EXPECT_GT(rejected, 20);
}

void expect_reason(const Error& error) {
  EXPECT_FALSE(error.message.empty());
  EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
  EXPECT_EQ(error.message.find("bug"), std::string::npos) << error.message;
}

TEST(Corpus, Npy) {
  replay("npy", [](const std::string& bytes) {
    const Result<Array> array = parse_npy(bytes, "corpus");
    if (!array) expect_reason(array.error());
    if (array) {
      EXPECT_LE(array->data.size(), bytes.size());
    }
    return array.has_value();
  });
}

TEST(Corpus, Safetensors) {
  replay("safetensors", [](const std::string& bytes) {
    const Result<std::vector<NamedArray>> tensors = parse_safetensors(bytes, "corpus");
    if (!tensors) expect_reason(tensors.error());
    return tensors.has_value();
  });
}

TEST(Corpus, Npz) {
  replay("npz", [](const std::string& bytes) {
    const Result<std::vector<NamedArray>> arrays = parse_npz(bytes, "corpus");
    if (!arrays) expect_reason(arrays.error());
    return arrays.has_value();
  });
}

TEST(Corpus, WeightMap) {
  replay("weight_map", [](const std::string& text) {
    const Result<WeightMap> map = WeightMap::parse(text, "corpus");
    if (!map) {
      EXPECT_EQ(map.error().message.substr(0, 9), "`corpus` ") << map.error().message;
    }
    return map.has_value();
  });
}

}  // namespace
}  // namespace rnnc
