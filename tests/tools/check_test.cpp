/// `rnnc check`: dims, diagnostics as JSON, colours, and sources that are none.
#include <sys/stat.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "frontend/syntax/source.h"
#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

using Json = nlohmann::json;

/// An environment variable, while it lives.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Setting() { ::unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

class CheckTool : public Tools {
 protected:
  Json json(int exit_code, std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"check", "--json"});
    const CommandResult result = rnnc(arguments);
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_EQ(result.errors, "");
    return Json::parse(result.output);
  }
};

TEST_F(CheckTool, DimsAreThoseOfEveryDefinitionThatHasThem) {
  directory_.write("blocks.rnn", R"(
cell Blocks[H, N](x: [H]) -> y {
  param R: [H, H] blocks N
  y = R @ x[t]
}
cell Loop[N](x: []) -> y {
  for l in 0..N { y = x[t] + l }
}
)");
  EXPECT_EQ(good({"check", "blocks.rnn"}), "blocks.rnn: ok\n");
  EXPECT_EQ(good({"check", "blocks.rnn", "--dim", "N=3", "--dim", "H=6"}), "blocks.rnn: ok\n");
  EXPECT_EQ(bad(1, {"check", "blocks.rnn", "--dim", "N=4", "--dim", "H=6"}).substr(0, 67),
            "blocks.rnn:3:26: error: `N` blocks do not divide `H` (H = 6, N = 4)");
  EXPECT_EQ(bad(1, {"check", "blocks.rnn", "--dim", "M=4"}),
            "blocks.rnn: error: `blocks.rnn` has no dim `M`\n  hint: its dims are H, N\n");
}

TEST_F(CheckTool, JsonHasPlacesHintsAndFixes) {
  directory_.write("in.rnn", "cell A[H](x: [H]) -> é {\n  é = 2 × x\n  é = é\n}\n");
  const Json report = json(1, {"in.rnn"});
  EXPECT_EQ(report["files"], Json::parse(R"([{"file": "in.rnn", "ok": false, "complete": true}])"));
  ASSERT_EQ(report["diagnostics"].size(), 1u);
  EXPECT_EQ(report["diagnostics"][0], Json::parse(R"({
    "file": "in.rnn",
    "range": {"start": {"line": 2, "column": 9, "offset": 35},
              "end": {"line": 2, "column": 10, "offset": 37}},
    "severity": "error",
    "message": "`×` (U+00D7) has no meaning here",
    "hint": "write `*`",
    "fixes": [{"file": "in.rnn",
               "range": {"start": {"line": 2, "column": 9, "offset": 35},
                         "end": {"line": 2, "column": 10, "offset": 37}},
               "replacement": "*"}],
    "notes": []
  })"));
}

TEST_F(CheckTool, JsonHasNotesWarningsAndWholeFiles) {
  directory_.write("twice.rnn", "const a = 1\nconst a = 2\ncell A[H](x: [H]) -> y { y = a }\n");
  const Json twice = json(1, {"twice.rnn"})["diagnostics"][0];
  EXPECT_EQ(twice["notes"][0]["message"], "first here");
  EXPECT_EQ(twice["notes"][0]["range"]["start"]["line"], 1);
  directory_.write("unused.rnn", "cell A[H](x: [H]) -> y { y = 1 }\n");
  const Json unused = json(0, {"toy.rnn", "unused.rnn"});
  EXPECT_EQ(unused["files"][0]["ok"], true);
  EXPECT_EQ(unused["diagnostics"][0]["severity"], "warning");
  EXPECT_EQ(unused["diagnostics"][0]["file"], "unused.rnn");
  EXPECT_EQ(unused["diagnostics"][0]["hint"], nullptr);
  const Json none = json(1, {"none.rnn"})["diagnostics"][0];
  EXPECT_EQ(none["range"], nullptr);
  EXPECT_EQ(none["message"], "cannot read `none.rnn`: No such file or directory");
  const Json dim = json(1, {"toy.rnn", "--dim", "Q=3"})["diagnostics"][0];
  EXPECT_EQ(dim["range"], nullptr);
  std::string many = "cell A(x: []) -> y {\n  y = x[t]\n";
  for (int i = 0; i < 30; ++i) many += "  y = z" + std::to_string(i) + "\n";
  directory_.write("many.rnn", many + "}\n");
  EXPECT_EQ(json(1, {"many.rnn"})["files"][0]["complete"], false);
}

TEST_F(CheckTool, TheDocumentShowsWhatIsPrinted) {
  const std::string document = TemporaryDirectory::read(RNNC_SOURCE_DIR "/docs/diagnostics.md");
  const auto block = [&](const std::string& fence) {
    const size_t begin = document.find(fence) + fence.size();
    return document.substr(begin, document.find("```\n", begin) - begin);
  };
  directory_.write("sum.rnn", block("\n```\n"));
  EXPECT_EQ(rnnc({"check", "sum.rnn", "--json"}).output, block("\n```json\n"));
}

TEST_F(CheckTool, ColoursAreForTerminalsOrWhereTheyAreAskedFor) {
  const std::string plain = bad(1, {"check", "bad.rnn"});
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  const Setting force("CLICOLOR_FORCE", "1");
  const std::string coloured = bad(1, {"check", "bad.rnn"});
  EXPECT_NE(coloured.find("\x1b[1;31merror:\x1b[0m unknown name `z`"), std::string::npos);
  EXPECT_NE(bad(1, {"check", "none.rnn"}).find("rnnc: \x1b[1;31merror:\x1b[0m cannot"),
            std::string::npos);
  const Setting none("NO_COLOR", "1");
  EXPECT_EQ(bad(1, {"check", "bad.rnn"}), plain);
}

TEST_F(CheckTool, NamesOfFilesAreNoCommandsForTheTerminal) {
  const std::string name = "e\x1b[31m\u202e.rnn";
  const std::string shown = "e\\x1b[31m\\xe2\\x80\\xae.rnn";
  directory_.write(name, "junk\n");
  EXPECT_EQ(bad(1, {"check", name}).find(shown + ":1:1: error: "), 0u);
  directory_.write(name, "cell A[H](x: [H]) -> y { y = x[t] }\n");
  EXPECT_EQ(good({"check", name}), shown + ": ok\n");
  EXPECT_EQ(bad(1, {"check", "toy.rnn", "--dim", "\x1b[31m=3"}).find('\x1b'), std::string::npos);
}

TEST_F(CheckTool, SourcesAreOfBoundedSize) {
  directory_.write("large.rnn", std::string(kLargestSource + 1, '\n'));
  EXPECT_EQ(bad(1, {"check", "large.rnn"}),
            "rnnc: error: cannot read `large.rnn`: it has 1048577 bytes, and 1048576 are the most "
            "that it may have\n");
}

TEST_F(CheckTool, OnlyRegularSourcesAreImported) {
  ::mkfifo((directory_ / "pipe.rnn").c_str(), 0600);
  std::filesystem::create_directory(directory_ / "folder.rnn");
  directory_.write("secret", "root:secret\n");
  std::filesystem::create_symlink("secret", directory_ / "link.rnn");
  directory_.write("large.rnn", std::string(kLargestSource + 1, '\n'));
  const auto import = [&](const std::string& path) {
    directory_.write("in.rnn", "import \"" + path + "\"\n");
    const std::string said = bad(1, {"check", "in.rnn"});
    EXPECT_EQ(said.find("root"), std::string::npos);
    return said.substr(0, said.find('\n'));
  };
  EXPECT_EQ(import("secret"),
            "in.rnn:1:1: error: cannot import `secret`: its name does not end in `.rnn`");
  EXPECT_EQ(import("/proc/kmsg"),
            "in.rnn:1:1: error: cannot import `/proc/kmsg`: its name does not end in `.rnn`");
  EXPECT_EQ(import("link.rnn"),
            "in.rnn:1:1: error: cannot import `link.rnn`: it is a link to what is no .rnn file");
  EXPECT_EQ(import("pipe.rnn"),
            "in.rnn:1:1: error: cannot read `pipe.rnn`: it is a pipe, not a file");
  EXPECT_EQ(import("folder.rnn"), "in.rnn:1:1: error: cannot read `folder.rnn`: it is a directory");
  EXPECT_EQ(import("large.rnn").find("in.rnn:1:1: error: cannot read `large.rnn`: it has"), 0u);
}

}  // namespace
}  // namespace rnnc::test
