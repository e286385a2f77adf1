#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/reference/golden.h"
#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

class Gradcheck : public Tools {};

TEST_F(Gradcheck, ComparesEveryInputParamAndGivenState) {
  const std::string lstm = (data_root() / "examples/cells/lstm.rnn").string();
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

TEST_F(Gradcheck, StopsAreConstantsToDifferencesToo) {
  directory_.write("stop.rnn", R"(
cell Rounded[H](x: [H]) -> h {
  state h: [H]
  param w: [H]
  v = w * x[t] + h[t-1]
  s = stop_gradient(w)
  h[t] = tanh(v + stop_gradient(round(4 * v) / 4 - v)) * s
}
)");
  EXPECT_EQ(good({"gradcheck", "stop.rnn", "--dim", "H=3"}).find("wrong"), std::string::npos);
}

TEST_F(Gradcheck, ComparesWithADeviceInItsType) {
  const std::string gru = (data_root() / "examples/cells/gru.rnn").string();
  const std::vector<std::string> words = {"gradcheck", gru, "--dim", "I=3", "--dim", "H=5"};
  std::vector<std::string> single = words;
  single.insert(single.end(), {"--dtype", "f32", "--residuals", "least"});
  EXPECT_NE(good(single), good(words));
  directory_.write("large.rnn",
                   "cell Large[H](x: [H]) -> y {\n  param w: [H]\n"
                   "  y = (w * 1e30) * (x[t] * 1e30) * 1e-60\n}\n");
  EXPECT_EQ(good({"gradcheck", "large.rnn", "--dim", "H=3"}).find("wrong"), std::string::npos);
  const CommandResult result = rnnc({"gradcheck", "large.rnn", "--dim", "H=3", "--dtype", "f32"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.errors,
            "rnnc: error: the gradient of input `x` on cpu in f32 is off by 1 of its norm; at most "
            "0.0001 is good\n");
}

TEST_F(Gradcheck, RoundingIsNotWrongWhereTermsCancel) {
  // Softmax does not change with what is added to all of its elements.
  directory_.write("shift.rnn",
                   "cell Shift[H](x: [H]) -> h {\n  state h: [H]\n  param R: [H, H]\n"
                   "  param c: [H]\n  h[t] = softmax(x[t] + R @ h[t-1] + sum(c))\n}\n");
  for (const std::string dtype : {"f64", "f32"}) {
    const std::string table = good({"gradcheck", "shift.rnn", "--dim", "H=16", "--dtype", dtype});
    EXPECT_NE(table.find("\nparam c "), std::string::npos) << table;
  }
  // What is far smaller than others is compared still.
  directory_.write("small.rnn",
                   "cell Small[H](x: [H]) -> y {\n  param w, v: [H]\n"
                   "  y = w * x[t] + v * stop_gradient(x[t]) * 1e-30 * 1e-30 * 1e57\n}\n");
  const CommandResult result = rnnc({"gradcheck", "small.rnn", "--dim", "H=3", "--dtype", "f32"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.errors,
            "rnnc: error: the gradient of param `v` on cpu in f32 is off by inf of a tenth of the "
            "largest norm; at "
            "most 0.0001 is good\n");
}

TEST_F(Gradcheck, SaysWhatIsWrong) {
  directory_.write("root.rnn", "cell Root[H](x: [H]) -> y {\n  y = sqrt(-1 - x[t] * x[t])\n}\n");
  CommandResult result = rnnc({"gradcheck", "root.rnn", "--dim", "H=1", "--steps=1", "--batch=1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("     inf  0.0e+00  wrong\n"), std::string::npos) << result.output;
  std::erase(result.errors, '-');  // NaN may have any sign
  EXPECT_EQ(result.errors,
            "rnnc: error: the gradient of input `x` is nan at element 0, by differences nan\n");

  directory_.write("kink.rnn",
                   "cell Kink[H](x: [H]) -> y {\n  param w: [H]\n"
                   "  y = abs(w - stop_gradient(w)) * x[t]\n}\n");
  result = rnnc({"gradcheck", "kink.rnn", "--dim", "H=3"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.errors,
            "rnnc: error: 3 of 3 elements of param `w` stand at kinks, more than 1 %\n  hint: try "
            "another --seed, more --elements where not all are tried, or, if the cell is made of "
            "kinks, --most-kinks\n");
  EXPECT_NE(result.output.find("\nkinks, where the function bends or jumps:\n  param w[0]: 0, by "
                               "differences 0.42522 below and -0.42522 above\n"),
            std::string::npos)
      << result.output;
  const std::string allowed = good({"gradcheck", "kink.rnn", "--dim", "H=3", "--most-kinks=100"});
  EXPECT_EQ(allowed.find("wrong"), std::string::npos) << allowed;

  directory_.write("kinks.rnn",
                   "cell Kinks[H](x: [H]) -> y {\n  param w: [H, 3]\n"
                   "  y = sum(abs(w - stop_gradient(w)) @ [1, 1, 1]) * x[t]\n}\n");
  result = rnnc({"gradcheck", "kinks.rnn", "--dim", "H=12", "--most-kinks=100"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("\n  param w[6, 1]: 0, by "), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("\n  param w: and 16 more\n"), std::string::npos) << result.output;
}

TEST_F(Gradcheck, RefusesWhatDoesNotFitInMemory) {
  const std::string errors =
      bad(1, {"gradcheck", "toy.rnn", "--dim", "I=2000000000", "--dim", "H=1000"});
  EXPECT_TRUE(errors.starts_with("rnnc: error: not enough memory: the interpreter's arrays take "))
      << errors;
}

TEST_F(Gradcheck, LongRowsMakeNoLongGraphs) {
  directory_.write("rows.rnn",
                   "cell Rows[N, M](x: [N]) -> y {\n  param W: [N, M]\n"
                   "  y = sum(W) + mean(W) + var(W) + max(W) + x[t]\n}\n");
  EXPECT_EQ(good({"gradcheck", "rows.rnn", "--dim", "N=3", "--dim", "M=4"}).find("wrong"),
            std::string::npos);
  const std::vector<std::string> emit = {"emit",       "rows.rnn", "--as", "graph",
                                         "--backward", "--dim",    "N=3"};
  std::vector<std::string> few = emit;
  std::vector<std::string> many = emit;
  few.insert(few.end(), {"--dim", "M=7"});
  many.insert(many.end(), {"--dim", "M=100000000"});
  const std::string small = good(few);
  const std::string large = good(many);
  EXPECT_EQ(std::ranges::count(small, '\n'), std::ranges::count(large, '\n'));
}

TEST_F(Gradcheck, EmitPrintsTheBackwardHalf) {
  const std::string lstm = (data_root() / "examples/cells/lstm.rnn").string();
  const std::string text =
      good({"emit", lstm, "--as", "graph", "--backward", "--dim", "I=3", "--dim", "H=2"});
  EXPECT_TRUE(text.starts_with("graph LSTM() descending {")) << text;
  EXPECT_NE(text.find("state c@adjoint: [2]"), std::string::npos) << text;
  EXPECT_NE(text.find("result W_i = "), std::string::npos) << text;
  EXPECT_EQ(
      bad(2, {"emit", lstm, "--as", "ast", "--backward"}),
      usage_error("rnnc emit", "--backward: a syntax tree has no derivative: --as graph has"));
  const std::string plan =
      good({"emit", lstm, "--as", "plan", "--backward", "--dim", "I=3", "--dim", "H=2"});
  EXPECT_NE(plan.find(", descending, batch 1"), std::string::npos) << plan;
  EXPECT_NE(plan.find("\n    total b"), std::string::npos) << plan;
}

}  // namespace
}  // namespace rnnc::test
