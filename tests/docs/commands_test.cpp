// What documents show of commands is what happens; how it is shown: documented_commands.h.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/documented_commands.h"
#include "tests/support/reference/golden.h"

namespace rnnc::test {
namespace {

TEST(Commands, DoWhatDocumentsShow) {
  const CommandSetting setting{
      .programs = {RNNC_BINARY_DIR "/tools", RNNC_BINARY_DIR "/tests", RNNC_BINARY_DIR "/examples"},
#ifdef RNNC_WITH_CUDA
      .cuda = true,
#endif
  };
  const std::vector<std::string> documents = documents_with_commands();
  EXPECT_GE(documents.size(), 6u);
  for (const std::string& document : documents) {
    for (const std::string& problem : run_document(document, setting)) ADD_FAILURE() << problem;
  }
}

TEST(Commands, ShownTextMayLeaveOutWhatVaries) {
  EXPECT_TRUE(fits_shown("a\nb\n", "a\n\nb\n"));
  EXPECT_FALSE(fits_shown("a\nb\n", "a\nb\nc\n"));
  EXPECT_FALSE(fits_shown("a\nb\n", "a\n"));
  EXPECT_TRUE(fits_shown("time … us (…)\n", "time 3.2 us (median)\n"));
  EXPECT_FALSE(fits_shown("time … us\n", "time 3.2 ms\n"));
  EXPECT_TRUE(fits_shown("a\n…\nd\n", "a\nb\nc\nd\n"));
  EXPECT_TRUE(fits_shown("a\n…\n", "a\n"));
  EXPECT_FALSE(fits_shown("a\n…\nd\n", "a\nb\nc\n"));
}

TEST(Commands, CellsAreCounted) {
  const std::filesystem::directory_iterator cells(data_root() / "examples/cells");
  const std::string counted =
      fmt::format("{} published cells", std::distance(begin(cells), end(cells)));
  for (const char* document : {"README.md", "docs/papers.md"}) {
    EXPECT_NE(read_data(document).find(counted), std::string::npos) << document << ": " << counted;
  }
}

}  // namespace
}  // namespace rnnc::test
