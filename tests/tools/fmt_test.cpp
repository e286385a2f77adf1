/// `rnnc fmt`: files, folders, standard input, and what it leaves as it is.
#include <filesystem>

#include "frontend/syntax/source.h"
#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

namespace fs = std::filesystem;

const std::string kLoose = "cell A(x:[])->y{ y=x[ t ]  }// done\n";
const std::string kNeat = "cell A(x: []) -> y { y = x[t] }  // done\n";

class FmtTool : public Tools {
 protected:
  std::string text_of(const std::string& file) const {
    return TemporaryDirectory::read(directory_ / file);
  }
};

TEST_F(FmtTool, WritesFilesInPlaceAndThoseInStyleNotAtAll) {
  directory_.write("a.rnn", kLoose);
  directory_.write("b.rnn", kNeat);
  fs::permissions(directory_ / "a.rnn", fs::perms(0640));
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(directory_ / "b.rnn", long_ago);
  EXPECT_EQ(good({"fmt", "a.rnn", "b.rnn", "./a.rnn"}), "");
  EXPECT_EQ(text_of("a.rnn"), kNeat);
  EXPECT_EQ(fs::status(directory_ / "a.rnn").permissions(), fs::perms(0640));
  EXPECT_EQ(fs::last_write_time(directory_ / "b.rnn"), long_ago);
}

TEST_F(FmtTool, CheckListsAndWritesNothing) {
  directory_.write("a.rnn", kLoose);
  directory_.write("b.rnn", kNeat);
  const CommandResult result = rnnc({"fmt", "--check", "a.rnn", "b.rnn"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.output, "a.rnn\n");
  EXPECT_EQ(result.errors, "rnnc: error: 1 file is not in style\n");
  EXPECT_EQ(text_of("a.rnn"), kLoose);
  EXPECT_EQ(good({"fmt", "--check", "b.rnn"}), "");
  directory_.write("c.rnn", kLoose);
  EXPECT_EQ(rnnc({"fmt", "--check", "a.rnn", "b.rnn", "c.rnn"}).errors,
            "rnnc: error: 2 files are not in style\n");
}

TEST_F(FmtTool, StandardInputGoesToStandardOutput) {
  for (const std::string& text : {kLoose, kNeat}) {
    const CommandResult result = run_command(directory_.path(), {"fmt", "-"}, text);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.output, kNeat);
  }
  const CommandResult check = run_command(directory_.path(), {"fmt", "--check", "-"}, kLoose);
  EXPECT_EQ(check.exit_code, 1);
  EXPECT_EQ(check.output, "<stdin>\n");
  EXPECT_EQ(bad(2, {"fmt", "-", "-"}),
            usage_error("rnnc fmt", "standard input serves one file only, and several are `-`"));
}

TEST_F(FmtTool, FoldersAreSearchedForWhatIsNotHidden) {
  fs::create_directories(directory_ / "in/deep/.hidden");
  fs::create_directories(directory_ / "empty");
  for (const char* file : {"in/z.rnn", "in/deep/a.rnn", "in/deep/.hidden/b.rnn", "in/c.txt"}) {
    directory_.write(file, kLoose);
  }
  EXPECT_EQ(rnnc({"fmt", "--check", "in"}).output, "in/deep/a.rnn\nin/z.rnn\n");
  EXPECT_EQ(good({"fmt", "in"}), "");
  EXPECT_EQ(text_of("in/deep/a.rnn"), kNeat);
  EXPECT_EQ(text_of("in/deep/.hidden/b.rnn"), kLoose);
  EXPECT_EQ(text_of("in/c.txt"), kLoose);
  EXPECT_EQ(bad(1, {"fmt", "empty"}), "rnnc: error: there is no .rnn file in `empty`\n");
}

TEST_F(FmtTool, FilesWithErrorsStayAndOthersAreWritten) {
  const std::string wrong = "cell A(x:[])->y{ y=x[ t  }\n";
  directory_.write("wrong.rnn", wrong);
  directory_.write("bytes.rnn", "\xff");
  directory_.write("a.rnn", kLoose);
  const std::string errors = bad(1, {"fmt", "wrong.rnn", "bytes.rnn", "none.rnn", "a.rnn"});
  EXPECT_NE(errors.find("wrong.rnn:1:26: error: expected `]`, found `}`"), std::string::npos)
      << errors;
  EXPECT_NE(errors.find("bytes.rnn:1:1: error: not a text file"), std::string::npos) << errors;
  EXPECT_NE(errors.find("cannot read `none.rnn`"), std::string::npos) << errors;
  EXPECT_EQ(text_of("wrong.rnn"), wrong);
  EXPECT_EQ(text_of("bytes.rnn"), "\xff");
  EXPECT_EQ(text_of("a.rnn"), kNeat);
}

TEST_F(FmtTool, LongFilesAreWritten) {
  std::string loose = kLoose, neat = kNeat + "\n";
  for (int line = 0; line < 100'000; ++line) {
    loose += "//\n";
    neat += "//\n";
  }
  directory_.write("long.rnn", loose);
  EXPECT_EQ(good({"check", "long.rnn"}), "long.rnn: ok\n");
  good({"fmt", "long.rnn"});
  EXPECT_TRUE(text_of("long.rnn") == neat);  // a difference of so many lines is not to be printed
}

TEST_F(FmtTool, NothingIsWrittenThatCouldNotBeRead) {
  std::string text = "cell A(x:[])->y{\n";
  size_t formatted = std::string_view("cell A(x: []) -> y {\n}\n").size();
  while (text.size() < kLargestSource - 64) {
    text += "y=x[t]\n";
    formatted += std::string_view("  y = x[t]\n").size();
  }
  text += "}\n";
  directory_.write("large.rnn", text);
  EXPECT_EQ(bad(1, {"fmt", "large.rnn"}),
            fmt::format("rnnc: error: `large.rnn` would have {} bytes when formatted, more than 1 "
                        "MiB\n",
                        formatted));
  EXPECT_EQ(text_of("large.rnn"), text);
}

}  // namespace
}  // namespace rnnc::test
