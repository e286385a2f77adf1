/// Imports: files beside each other, and what is said of those that cannot be read.
#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

class ImportTool : public Tools {
 protected:
  ImportTool() {
    std::filesystem::create_directory(directory_ / "cells");
    std::filesystem::create_directory(directory_ / "networks");
    directory_.write("cells/sum.rnn", R"(
cell Sum[H](x: [H]) -> s {
  state s: [H]
  param g: [H]
  s[t] = s[t-1] + g * x[t]
}
)");
    directory_.write("networks/twice.rnn", R"(import "../cells/sum.rnn"
network Twice[H](x: [H]) -> y {
  y = Sum(Sum(x))
}
)");
  }
};

TEST_F(ImportTool, EveryCommandFindsImportedFiles) {
  const std::string file = "networks/twice.rnn";
  EXPECT_EQ(good({"check", file}), file + ": ok\n");
  EXPECT_EQ(good({"weights", file}), "Sum.0.g [H]\nSum.1.g [H]\n");
  EXPECT_NE(good({"emit", file, "--as", "graph"}).find("state Sum.1.s: [H]"), std::string::npos);
#ifdef RNNC_WITH_CPU
  write_array("x.npy", {1, 1, 2}, {1, 2});
  EXPECT_EQ(good({"run", file, "--input", "x=x.npy", "--seed", "1"}),
            "--output y [1, 1, 2]\n--final Sum.0.s [1, 2]\n--final Sum.1.s [1, 2]\n");
#endif
}

TEST_F(ImportTool, OneFileUnderTwoNamesIsOne) {
  std::filesystem::create_symlink("../cells/sum.rnn", directory_ / "networks/link.rnn");
  directory_.write("networks/all.rnn", R"(import "link.rnn"
import "../cells/sum.rnn"
import "twice.rnn"
import "../networks/../cells/./sum.rnn"
network All[H](x: [H]) -> y {
  y = Twice(Sum(x))
}
)");
  EXPECT_EQ(good({"check", "networks/all.rnn"}), "networks/all.rnn: ok\n");
}

TEST_F(ImportTool, ErrorsNameFilesAsTheyAreFoundFromHere) {
  directory_.write("cells/bad.rnn", "cell Bad[H](x: [H]) -> y {\n  y = x[t] + z\n}\n");
  directory_.write("networks/bad.rnn",
                   "import \"../cells/bad.rnn\"\nnetwork N[H](x: [H]) -> y {\n  y = Bad(x)\n}\n");
  EXPECT_EQ(bad(1, {"check", "networks/bad.rnn"}).substr(0, 43),
            "cells/bad.rnn:2:14: error: unknown name `z`");
}

TEST_F(ImportTool, FilesThatCannotBeReadAreNamed) {
  const auto error = [&](const std::string& path) {
    directory_.write("networks/n.rnn",
                     "import \"" + path + "\"\ncell C[H](x: [H]) -> y {\n" + "  y = x[t]\n}\n");
    return bad(1, {"check", "networks/n.rnn"});
  };
  EXPECT_EQ(error("../cells/none.rnn"),
            "networks/n.rnn:1:1: error: cannot read `cells/none.rnn`: No such file or directory\n"
            "  import \"../cells/none.rnn\"\n"
            "  ^~~~~~~~~~~~~~~~~~~~~~~~~~\n"
            "  hint: a path is relative to the file that imports\n");
  EXPECT_NE(error("..").find("cannot import `.`: its name does not end in `.rnn`"),
            std::string::npos);
  EXPECT_NE(error("n.rnn").find("networks/n.rnn"), std::string::npos);
}

TEST_F(ImportTool, CirclesAreFoundHoweverTheyAreSpelled) {
  directory_.write("a.rnn", "import \"cells/../b.rnn\"\ncell A[H](x: [H]) -> y {\n  y = x[t]\n}\n");
  directory_.write("b.rnn", "import \"./a.rnn\"\ncell B[H](x: [H]) -> y {\n  y = x[t]\n}\n");
  EXPECT_NE(bad(1, {"check", "./a.rnn"}).find("circle: ./a.rnn → b.rnn → ./a.rnn"),
            std::string::npos);
}

}  // namespace
}  // namespace rnnc::test
