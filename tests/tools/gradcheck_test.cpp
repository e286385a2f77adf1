#include <gtest/gtest.h>

#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

class Gradcheck : public Tools {};

TEST_F(Gradcheck, ComparesEveryInputParamAndGivenState) {
  const std::string lstm = source("examples/cells/lstm.rnn");
  const std::vector<std::string> words = {"gradcheck", lstm,      "--dim", "I=3",     "--dim",
                                          "H=2",       "--steps", "4",     "--batch", "2"};
  const std::string table = good(words);
  EXPECT_NE(table.find("\ninput x                           24        24      0"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("\nparam b_o                          2         2      0"),
            std::string::npos)
      << table;
  EXPECT_EQ(table.find("\nstate"), std::string::npos) << table;
  std::vector<std::string> more = words;
  more.insert(more.end(), {"--given-states", "--residuals", "least"});
  EXPECT_NE(good(more).find("\nstate c "), std::string::npos);
  EXPECT_EQ(good(words), table);
}

TEST_F(Gradcheck, EmitPrintsTheBackwardHalf) {
  const std::string lstm = source("examples/cells/lstm.rnn");
  const std::string text =
      good({"emit", lstm, "--as", "graph", "--backward", "--dim", "I=3", "--dim", "H=2"});
  EXPECT_TRUE(text.starts_with("graph LSTM() descending {")) << text;
  EXPECT_NE(text.find("state c@adjoint: [2]"), std::string::npos) << text;
  EXPECT_NE(text.find("result W_i = "), std::string::npos) << text;
  EXPECT_NE(bad(2, {"emit", lstm, "--as", "plan", "--backward"}).find("only of --as graph"),
            std::string::npos);
}

}  // namespace
}  // namespace rnnc::test
