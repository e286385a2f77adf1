// Commands that documents show for a GPU do what they say, where there is one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/documented_commands.h"

namespace rnnc::test {
namespace {

TEST(DocumentedCommands, RunOnAGpu) {
  // Carried to another machine, `rnnc` lies beside the test programs or where the build has it.
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const CommandSetting setting{
      .programs = {here, here.parent_path() / "tools"}, .cuda = true, .gpu = true};
  const auto finds_gpu = [](const std::filesystem::path& folder) {
    const std::string command = "'" + folder.string() + "/rnnc' devices 2>&1 | grep -q '^cuda:'";
    return std::system(command.c_str()) == 0;
  };
  // The emulated GPU is this program's alone.
  if (std::ranges::none_of(setting.programs, finds_gpu)) GTEST_SKIP() << "no `rnnc` with a GPU";
  for (const std::string& document : documents_with_commands()) {
    for (const std::string& problem : run_document(document, setting)) ADD_FAILURE() << problem;
  }
}

}  // namespace
}  // namespace rnnc::test
