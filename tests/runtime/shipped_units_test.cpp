#include "runtime/program/shipped_units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace rnnc {
namespace {

namespace fs = std::filesystem;

TEST(ShippedUnits, AreTheFilesOfTheExamples) {
  std::set<std::string> files;
  for (const char* folder : {"cells", "networks"}) {
    for (const auto& entry :
         fs::directory_iterator(fs::path(RNNC_SOURCE_DIR) / "examples" / folder)) {
      if (entry.path().extension() == ".rnn") files.insert(entry.path().stem());
    }
  }
  const std::vector<std::string> names = shipped_units();
  EXPECT_EQ(std::set(names.begin(), names.end()), files);
  EXPECT_EQ(names.size(), files.size());
}

TEST(ShippedUnits, AreRightAndFindWhatTheyImport) {
  for (const std::string& name : shipped_units()) {
    Result<Unit> unit = shipped_unit(name);
    ASSERT_TRUE(unit);
    EXPECT_TRUE(unit->check()) << unit->render();
  }
  Result<Unit> stacked = shipped_unit("stacked_lstm");
  ASSERT_TRUE(stacked);
  EXPECT_EQ(stacked->definitions(), std::vector<std::string>{"StackedLSTM"});
  EXPECT_TRUE(stacked->lower("StackedLSTM", {}));
  ASSERT_GE(stacked->files().size(), 2u);
  EXPECT_EQ(stacked->files()[1].name(), "cells/lstm.rnn");
}

TEST(ShippedUnits, OtherNamesAreErrors) {
  const auto error_of = [](std::string_view name) {
    const Result<Unit> unit = shipped_unit(name);
    return unit ? "" : unit.error().message;
  };
  EXPECT_EQ(error_of("lstn"), "rnnc has no cell or network `lstn` (did you mean `lstm`?)");
  EXPECT_EQ(error_of("cells/lstm.rnn"), "rnnc has no cell or network `cells/lstm.rnn`");
  EXPECT_EQ(error_of(""), "rnnc has no cell or network ``");
}

}  // namespace
}  // namespace rnnc
