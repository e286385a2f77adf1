/// A real client: Neovim without a screen, set up as tools/editors says, types an error, sees it and
/// applies the fix.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tests/runtime/temporary_directory.h"

namespace rnnc::test {
namespace {

namespace fs = std::filesystem;

TEST(Neovim, ShowsAnErrorAndItsFix) {
  if (std::system("nvim --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no nvim";
  TemporaryDirectory folder;
  folder.write("a.rnn", "cell A(x: []) -> y {\n  y = tanh(x[t])\n}\n");
  const fs::path editors = RNNC_SOURCE_DIR "/tools/editors";
  const std::string readme = TemporaryDirectory::read(editors / "README.md");
  const std::string start = "```lua\n";
  const size_t begin = readme.find(start) + start.size();
  folder.write("setup.lua", readme.substr(begin, readme.find("```", begin) - begin));
  const std::string line = fmt::format(
      "cd {0} && XDG_STATE_HOME={0} XDG_DATA_HOME={0} PATH={1}/tools:$PATH timeout 60 "
      "nvim --clean --headless --cmd 'set rtp+={2}/vim' --cmd 'luafile setup.lua' "
      "-c 'luafile {3}/tests/lsp/neovim.lua' -c 'cquit 1' 2>&1",
      folder.path().string(), RNNC_BINARY_DIR, editors.string(), RNNC_SOURCE_DIR);
  FILE* pipe = ::popen(line.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  char bytes[4096];
  while (const size_t count = std::fread(bytes, 1, sizeof bytes, pipe)) output.append(bytes, count);
  EXPECT_EQ(::pclose(pipe), 0) << output;
  EXPECT_NE(output.find("did you mean `tanh`?"), std::string::npos) << output;
  EXPECT_NE(output.find("  y = tanh(x[t])"), std::string::npos) << output;
}

}  // namespace
}  // namespace rnnc::test
